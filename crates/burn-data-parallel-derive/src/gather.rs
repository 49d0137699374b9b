//! Expansion of `#[derive(Gather)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, LitInt, Result};

use crate::fields::{Word, impl_header, read};
use crate::runtime_crate;

enum Mode {
    Concat,
    Along(LitInt),
    Mean,
    Sum,
    First,
}

pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let parse = |word| match word {
        None => Some(Mode::Concat),
        Some(Word::Dim(dim)) => Some(Mode::Along(dim)),
        Some(Word::Flag(flag)) => match flag.as_str() {
            "mean" => Some(Mode::Mean),
            "sum" => Some(Mode::Sum),
            "first" => Some(Mode::First),
            _ => None,
        },
    };
    let fields = read(input, "gather", parse, "dim = N, mean, sum, first")?;
    let krate = runtime_crate();

    let (mut members, mut parts, mut gathered, mut bounds) = (vec![], vec![], vec![], vec![]);
    for (index, field) in fields.iter().enumerate() {
        let (ty, name) = (&field.ty, field.name());
        let part = format_ident!("parts_{index}");
        let reduced = |wrapper: TokenStream| {
            let value = quote! {
                #krate::Gather::gather_shards(
                    #part.into_iter().map(#wrapper).collect::<::std::vec::Vec<_>>(),
                    &plan.field(#name),
                )?.0
            };
            (value, quote!(#wrapper<#ty>: #krate::Gather))
        };
        let plain = quote!(#ty: #krate::Gather);
        let (value, bound) = match &field.mode {
            Mode::Concat => (
                quote!(#krate::Gather::gather_shards(#part, &plan.field(#name))?),
                plain,
            ),
            Mode::Along(dim) => (
                quote!(#krate::Gather::gather_shards(#part, &plan.field(#name).along(#dim))?),
                plain,
            ),
            Mode::Mean => reduced(quote!(#krate::Mean)),
            Mode::Sum => reduced(quote!(#krate::Sum)),
            Mode::First => (
                quote! {
                    #part.into_iter().next().ok_or_else(|| plan.field(#name).mismatch("no replica gave an output"))?
                },
                quote!(#ty: ::core::marker::Sized),
            ),
        };
        members.push(&field.member);
        parts.push(part);
        gathered.push(value);
        bounds.push(bound);
    }
    let header = impl_header(input, quote!(#krate::Gather), bounds);
    Ok(quote! {
        #[automatically_derived]
        #header {
            #[allow(unused_variables)]
            fn gather_shards(
                shards: ::std::vec::Vec<Self>,
                plan: &#krate::GatherPlan,
            ) -> ::core::result::Result<Self, #krate::DataParallelError> {
                #(let mut #parts = ::std::vec::Vec::with_capacity(shards.len());)*
                for shard in shards {
                    #(#parts.push(shard.#members);)*
                }
                ::core::result::Result::Ok(Self { #(#members: #gathered,)* })
            }
        }
    })
}
