//! Functions that take numbers and give a number, registered with Node-API as they are.
//!
//! What a router calls for every candidate of every request costs less than the glue that `#[napi]` generates: that opens a
//! scope for borrowed values in each call (an allocation, a lock, several thread-locals), about 70 ns where a whole gate
//! takes some 250. This file owns the crossing and nothing else: it checks that arguments are numbers, catches panics, and
//! throws what the function says.

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use napi::bindgen_prelude::{Env, JsValue, Object};
use napi::{JsError, sys};

use super::error::{Code, Result, fail};

/// A function of `N` numbers.
pub type Numbers<const N: usize> = fn([f64; N]) -> Result<f64>;

/// A function of a `Float64Array` and `N` numbers. The array is nobody else's during the call.
pub type ArrayAndNumbers<const N: usize> = fn(&[f64], [f64; N]) -> Result<f64>;

/// More arguments than any of these functions takes.
const MOST_ARGUMENTS: usize = 8;

/// The object that the functions are put on.
pub struct Table<'env> {
    env: &'env Env,
    object: Object<'env>,
}

impl<'env> Table<'env> {
    pub fn new(env: &'env Env) -> napi::Result<Self> {
        Ok(Self {
            env,
            object: Object::new(env)?,
        })
    }

    #[must_use]
    pub fn into_object(self) -> Object<'env> {
        self.object
    }

    pub fn numbers<const N: usize>(self, name: &CStr, function: Numbers<N>) -> napi::Result<Self> {
        self.put(name, call_numbers::<N>, function as *const c_void)
    }

    pub fn array_and_numbers<const N: usize>(
        self,
        name: &CStr,
        function: ArrayAndNumbers<N>,
    ) -> napi::Result<Self> {
        self.put(name, call_array_and_numbers::<N>, function as *const c_void)
    }

    #[allow(unsafe_code)]
    fn put(
        self,
        name: &CStr,
        callback: unsafe extern "C" fn(sys::napi_env, sys::napi_callback_info) -> sys::napi_value,
        function: *const c_void,
    ) -> napi::Result<Self> {
        let descriptor = sys::napi_property_descriptor {
            utf8name: name.as_ptr(),
            name: ptr::null_mut(),
            method: Some(callback),
            getter: None,
            setter: None,
            value: ptr::null_mut(),
            attributes: sys::PropertyAttributes::default,
            data: function.cast_mut(),
        };
        // SAFETY: the environment and the object are those of the running call, and the callback reads `data` as the type
        // of function that it was made from.
        let status = unsafe {
            sys::napi_define_properties(self.env.raw(), self.object.raw(), 1, &raw const descriptor)
        };
        napi::check_status!(status)?;
        Ok(self)
    }
}

/// The arguments of a call and the function behind it.
struct Call<const N: usize> {
    arguments: [sys::napi_value; N],
    function: *mut c_void,
}

/// # Safety
/// `env` and `info` are those that Node-API passed to the running callback.
#[allow(unsafe_code)]
unsafe fn call<const N: usize>(
    env: sys::napi_env,
    info: sys::napi_callback_info,
) -> Result<Call<N>> {
    let mut call = Call {
        arguments: [ptr::null_mut(); N],
        function: ptr::null_mut(),
    };
    let mut count = N;
    // SAFETY: the caller's promise. Missing arguments are filled with `undefined`.
    check(unsafe {
        sys::napi_get_cb_info(
            env,
            info,
            &raw mut count,
            call.arguments.as_mut_ptr(),
            ptr::null_mut(),
            &raw mut call.function,
        )
    })?;
    Ok(call)
}

fn check(status: sys::napi_status) -> Result<()> {
    if status == sys::Status::napi_ok {
        Ok(())
    } else {
        let status = napi::Status::from(status);
        Err(napi::Error::new(
            Code::from(status),
            format!("a number was expected: {status}"),
        ))
    }
}

/// # Safety
/// `env` is that of the running callback, and the values are its arguments.
#[allow(unsafe_code)]
unsafe fn numbers<const N: usize>(
    env: sys::napi_env,
    values: &[sys::napi_value],
) -> Result<[f64; N]> {
    let mut numbers = [f64::NAN; N];
    for (number, value) in numbers.iter_mut().zip(values) {
        // SAFETY: the caller's promise.
        check(unsafe { sys::napi_get_value_double(env, *value, number) })?;
    }
    Ok(numbers)
}

/// # Safety
/// As [`numbers`]. Nobody writes to the array while the answer is in use.
#[allow(unsafe_code)]
unsafe fn array<'call>(env: sys::napi_env, value: sys::napi_value) -> Result<&'call [f64]> {
    let mut kind = 0;
    let mut length = 0;
    let mut data = ptr::null_mut();
    // SAFETY: the caller's promise.
    check(unsafe {
        sys::napi_get_typedarray_info(
            env,
            value,
            &raw mut kind,
            &raw mut length,
            &raw mut data,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    })?;
    if kind != sys::TypedarrayType::float64_array {
        return fail(Code::InvalidArgument, "a Float64Array was expected");
    }
    if length == 0 || data.is_null() {
        return Ok(&[]);
    }
    // SAFETY: Node-API names memory of so many doubles, which lives as long as the array does.
    Ok(unsafe { std::slice::from_raw_parts(data.cast::<f64>(), length) })
}

/// # Safety
/// Called by Node-API; the data is a [`Numbers<N>`].
#[allow(unsafe_code)]
unsafe extern "C" fn call_numbers<const N: usize>(
    env: sys::napi_env,
    info: sys::napi_callback_info,
) -> sys::napi_value {
    finish(env, || {
        // SAFETY: Node-API passed both.
        let call = unsafe { call::<N>(env, info) }?;
        // SAFETY: registered with this very type.
        let function = unsafe { std::mem::transmute::<*mut c_void, Numbers<N>>(call.function) };
        // SAFETY: as above.
        function(unsafe { numbers::<N>(env, &call.arguments) }?)
    })
}

/// # Safety
/// Called by Node-API; the data is an [`ArrayAndNumbers<N>`].
#[allow(unsafe_code)]
unsafe extern "C" fn call_array_and_numbers<const N: usize>(
    env: sys::napi_env,
    info: sys::napi_callback_info,
) -> sys::napi_value {
    const {
        assert!(N < MOST_ARGUMENTS);
    }
    finish(env, || {
        // SAFETY: Node-API passed both.
        let call = unsafe { call::<MOST_ARGUMENTS>(env, info) }?;
        // SAFETY: registered with this very type.
        let function =
            unsafe { std::mem::transmute::<*mut c_void, ArrayAndNumbers<N>>(call.function) };
        // SAFETY: as above. Where the function runs SQL it may run JavaScript of the host, which cannot come by the array:
        // the facade takes it out of use for the length of the call.
        let (array, numbers) = unsafe {
            (
                array(env, call.arguments[0])?,
                numbers::<N>(env, &call.arguments[1..])?,
            )
        };
        function(array, numbers)
    })
}

/// Runs the work and turns what it gives into a value, or an error into a thrown one.
#[allow(unsafe_code)]
fn finish(env: sys::napi_env, work: impl FnOnce() -> Result<f64>) -> sys::napi_value {
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown");
        fail(Code::Internal, format!("a panic in native code: {said}"))
    });
    match outcome {
        Ok(number) => {
            let mut value = ptr::null_mut();
            // SAFETY: the environment of the running callback. A failure leaves null, which is `undefined`.
            unsafe { sys::napi_create_double(env, number, &raw mut value) };
            value
        }
        Err(error) => {
            // SAFETY: as above.
            unsafe { JsError::from(error).throw_into(env) };
            ptr::null_mut()
        }
    }
}
