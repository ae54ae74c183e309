//! Files that the program carries, compressed while it is compiled: `net_plugin!()`,
//! `tuner_plugin!()`, `profiler_plugin!()` and `deflated!("FILE")`.
//! Not what unpacks them: whoever uses one calls `miniz_oxide::inflate::decompress_to_vec_zlib`.
#![forbid(unsafe_code)]

mod deflated;
mod plugin;

use proc_macro::TokenStream;

/// A file's content in zlib's format (RFC 1950), a `&'static [u8]`. The path is relative to the manifest of the crate
/// that calls this.
#[proc_macro]
pub fn deflated(path: TokenStream) -> TokenStream {
    rust(deflated::relative(&path.to_string()))
}

/// The net plugin's shared library in zlib's format, a `&'static [u8]`. Empty where nothing is linked (`cargo check`,
/// clippy, rustdoc), because then there is no library, and for targets that have no shared libraries.
#[proc_macro]
pub fn net_plugin(_: TokenStream) -> TokenStream {
    rust(plugin::expression(plugin::NET, &plugin::arguments()))
}

/// The tuner's shared library, likewise.
#[proc_macro]
pub fn tuner_plugin(_: TokenStream) -> TokenStream {
    rust(plugin::expression(plugin::TUNER, &plugin::arguments()))
}

/// The profiler's shared library, likewise.
#[proc_macro]
pub fn profiler_plugin(_: TokenStream) -> TokenStream {
    rust(plugin::expression(plugin::PROFILER, &plugin::arguments()))
}

fn rust(expression: Result<String, String>) -> TokenStream {
    let text = expression.unwrap_or_else(|why| format!("compile_error!({why:?})"));
    // Text of ours: it is Rust.
    text.parse().unwrap_or_default()
}
