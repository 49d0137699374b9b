//! Expansion of `#[derive(Scatter)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, LitInt, Result};

use crate::fields::{Word, impl_header, read};
use crate::runtime_crate;

enum Mode {
    Split,
    Along(LitInt),
    Shared,
    Clone,
}

pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let parse = |word| match word {
        None => Some(Mode::Split),
        Some(Word::Dim(dim)) => Some(Mode::Along(dim)),
        Some(Word::Flag(flag)) if flag == "shared" => Some(Mode::Shared),
        Some(Word::Flag(flag)) if flag == "clone" => Some(Mode::Clone),
        Some(Word::Flag(_)) => None,
    };
    let fields = read(input, "scatter", parse, "dim = N, shared, clone")?;
    let krate = runtime_crate();

    let (mut inspect, mut cut, mut moved, mut bounds) = (vec![], vec![], vec![], vec![]);
    let (mut members, mut pieces) = (vec![], vec![]);
    for (index, field) in fields.iter().enumerate() {
        let (member, ty, name) = (&field.member, &field.ty, field.name());
        let piece = format_ident!("piece_{index}");
        let scattered = quote!(#ty: #krate::Scatter);
        let to_replica = quote!(#krate::Scatter::to_replica(self.#member, replica, shards));
        match &field.mode {
            Mode::Split => {
                inspect.push(quote!(inspector.field(#name, &self.#member);));
                cut.push(quote!(#krate::Scatter::into_shards(self.#member, shards)));
                moved.push(to_replica);
                bounds.push(scattered);
            }
            Mode::Along(dim) => {
                inspect.push(quote!(inspector.field_along(#name, #dim, &self.#member);));
                cut.push(quote!(#krate::Scatter::into_shards(self.#member, &shards.along(#dim))));
                moved.push(to_replica);
                bounds.push(scattered);
            }
            Mode::Shared => {
                cut.push(quote!(#krate::share(self.#member, shards)));
                moved.push(to_replica);
                bounds.push(quote!(#ty: #krate::Scatter + ::core::clone::Clone));
            }
            Mode::Clone => {
                cut.push(quote!(::std::vec![self.#member; shards.len()]));
                moved.push(quote!(self.#member));
                bounds.push(quote!(#ty: ::core::clone::Clone));
            }
        }
        members.push(member);
        pieces.push(piece);
    }
    let header = impl_header(input, quote!(#krate::Scatter), bounds);
    Ok(quote! {
        #[automatically_derived]
        #header {
            #[allow(unused_variables)]
            fn inspect(&self, inspector: &mut #krate::BatchInspector) {
                #(#inspect)*
            }

            fn into_shards(self, shards: &#krate::Shards) -> ::std::vec::Vec<Self> {
                #(let mut #pieces = ::core::iter::IntoIterator::into_iter(#cut);)*
                let mut out = ::std::vec::Vec::with_capacity(shards.len());
                for _ in 0..shards.len() {
                    out.push(Self {
                        #(#members: ::core::iter::Iterator::next(&mut #pieces)
                            .expect("`into_shards` gives one piece per shard"),)*
                    });
                }
                out
            }

            #[allow(unused_variables)]
            fn to_replica(self, replica: usize, shards: &#krate::Shards) -> Self {
                Self { #(#members: #moved,)* }
            }
        }
    })
}
