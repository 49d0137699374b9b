//! The backends that this program was built with.

/// Their names; each is a feature of the package.
pub fn compiled_in() -> Vec<&'static str> {
    let all = [
        ("flex", cfg!(feature = "flex")),
        ("cuda", cfg!(feature = "cuda")),
        ("rocm", cfg!(feature = "rocm")),
        ("vulkan", cfg!(feature = "vulkan")),
        ("wgpu", cfg!(feature = "wgpu")),
    ];
    all.into_iter()
        .filter_map(|(name, compiled_in)| compiled_in.then_some(name))
        .collect()
}
