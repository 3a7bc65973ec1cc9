//! Where this library was loaded from: a host connection has to load that very file as its extension.
//!
//! The address looked up is that of a function that the library does not export: SQLite makes what it loads visible to
//! everything loaded later, so an exported one may be that of another copy of this addon.

/// The path of the file that holds this code.
#[cfg(unix)]
#[must_use]
pub fn library_path() -> Option<String> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is one of this library, `found` has room for the answer, and the name stays valid while the
    // library is loaded.
    unsafe {
        let here = library_path as *const std::ffi::c_void;
        if libc::dladdr(here, found.as_mut_ptr()) == 0 {
            return None;
        }
        let name = found.assume_init().dli_fname;
        (!name.is_null()).then(|| {
            std::ffi::CStr::from_ptr(name)
                .to_string_lossy()
                .into_owned()
        })
    }
}

/// The path of the file that holds this code.
#[cfg(windows)]
#[must_use]
pub fn library_path() -> Option<String> {
    use windows_sys::Win32::Foundation::HMODULE;
    use windows_sys::Win32::System::LibraryLoader::{
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
        GetModuleFileNameW, GetModuleHandleExW,
    };
    const LONGEST: usize = 32_768;
    let mut module: HMODULE = std::ptr::null_mut();
    let mut name = vec![0_u16; LONGEST];
    // SAFETY: the address is one of this library; `module` and `name` have room for the answers.
    let length = unsafe {
        let here = library_path as *const u16;
        let flags =
            GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
        if GetModuleHandleExW(flags, here, &raw mut module) == 0 {
            return None;
        }
        GetModuleFileNameW(
            module,
            name.as_mut_ptr(),
            u32::try_from(LONGEST).unwrap_or(u32::MAX),
        )
    };
    (length > 0).then(|| String::from_utf16_lossy(&name[..length as usize]))
}
