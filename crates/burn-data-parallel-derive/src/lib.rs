//! `#[derive(Scatter, Gather)]` for batches and outputs of `burn-data-parallel`.
//!
//! See the traits of the same names there for what the attributes mean.

mod fields;
mod gather;
mod scatter;

use proc_macro::TokenStream;
use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::Span;
use syn::{DeriveInput, Ident, parse_macro_input};

/// Implement `Scatter` for a struct, field by field.
///
/// Field attributes: `#[scatter(dim = 1)]` (split along a dim of its own), `#[scatter(shared)]` (whole, moved to every
/// replica's device; needs `Scatter + Clone`), `#[scatter(clone)]` (cloned as it is; needs `Clone` alone).
#[proc_macro_derive(Scatter, attributes(scatter))]
pub fn derive_scatter(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    scatter::expand(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Implement `Gather` for a struct, field by field.
///
/// Field attributes: `#[gather(dim = 1)]` (concatenate along a dim of its own), `#[gather(mean)]` (mean weighted by rows),
/// `#[gather(sum)]`, `#[gather(first)]` (the primary's value; needs no `Gather`).
#[proc_macro_derive(Gather, attributes(gather))]
pub fn derive_gather(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    gather::expand(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// The crate that holds the traits, by the name the deriving package knows it under.
fn runtime_crate() -> proc_macro2::TokenStream {
    let name = ["burn-data-parallel", "burn-dp"]
        .into_iter()
        .find_map(|package| match crate_name(package) {
            Ok(FoundCrate::Name(name)) => Some(name),
            Ok(FoundCrate::Itself) => Some(package.replace('-', "_")),
            Err(_) => None,
        })
        .unwrap_or_else(|| "burn_data_parallel".into());
    let ident = Ident::new(&name, Span::call_site());
    quote::quote!(::#ident)
}
