//! The fields of a struct with their attribute.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Data, DeriveInput, Error, Index, LitInt, Member, Result, Type};

/// One field: how to name it, its type, and what its attribute asks.
pub struct Field<Mode> {
    pub member: Member,
    pub ty: Type,
    pub mode: Mode,
}

impl<Mode> Field<Mode> {
    /// The field's name as a string, for paths in messages.
    pub fn name(&self) -> String {
        self.member.to_token_stream().to_string()
    }
}

/// Read the fields of `input`, each with the mode that `parse` makes of its `#[attribute(word)]` or `#[attribute(dim = 1)]`.
pub fn read<Mode>(
    input: &DeriveInput,
    attribute: &str,
    parse: impl Fn(Option<Word>) -> Option<Mode>,
    words: &str,
) -> Result<Vec<Field<Mode>>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(
            &input.ident,
            "only structs can be derived: implement the trait by hand for enums and unions",
        ));
    };
    data.fields
        .iter()
        .enumerate()
        .map(|(position, field)| {
            let word = read_word(&field.attrs, attribute, words)?;
            let mode = parse(word)
                .ok_or_else(|| Error::new_spanned(field, format!("expected one of: {words}")))?;
            Ok(Field {
                member: match &field.ident {
                    Some(ident) => Member::Named(ident.clone()),
                    None => Member::Unnamed(Index::from(position)),
                },
                ty: field.ty.clone(),
                mode,
            })
        })
        .collect()
}

/// The content of a field attribute.
pub enum Word {
    Dim(LitInt),
    Flag(String),
}

fn read_word(attrs: &[Attribute], attribute: &str, words: &str) -> Result<Option<Word>> {
    let mut found = None;
    for attr in attrs.iter().filter(|attr| attr.path().is_ident(attribute)) {
        attr.parse_nested_meta(|meta| {
            if found.is_some() {
                return Err(meta.error(format!("only one of these at a time: {words}")));
            }
            let name = meta
                .path
                .get_ident()
                .map(ToString::to_string)
                .unwrap_or_default();
            found = Some(if name == "dim" {
                let dim: LitInt = meta.value()?.parse()?;
                dim.base10_parse::<usize>()?;
                Word::Dim(dim)
            } else {
                Word::Flag(name)
            });
            Ok(())
        })?;
    }
    Ok(found)
}

/// `impl<..> Trait for Type<..> where <bounds>`, bounds only where the type has parameters to bound.
pub fn impl_header(
    input: &DeriveInput,
    trait_path: TokenStream,
    bounds: Vec<TokenStream>,
) -> TokenStream {
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let name = &input.ident;
    let own = where_clause.map(|clause| {
        // One by one: the clause may or may not end in a comma of its own.
        let predicates = clause.predicates.iter();
        quote!(#(#predicates,)*)
    });
    let bounds = if input.generics.type_params().next().is_some() {
        bounds
    } else {
        Vec::new()
    };
    quote!(impl #impl_generics #trait_path for #name #type_generics where #own #(#bounds),*)
}
