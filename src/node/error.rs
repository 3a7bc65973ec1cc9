//! Errors on their way to JavaScript: each carries a code of the closed list in docs/errors.md as its `code`.

use crate::store::sqlite::AttachError;

/// The `code` property of a thrown error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    InvalidArgument,
    AttachOtherCopy,
    AttachUnsupported,
    AttachFileInUse,
    AttachRefused,
    Open,
    Database,
    StoreUnavailable,
    StoreTimeout,
    StoreRefused,
    PoolProviders,
    GroupInUse,
    Reentrant,
    Internal,
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        match self {
            Self::InvalidArgument => "ERR_QUOTA_INVALID_ARGUMENT",
            Self::AttachOtherCopy => "ERR_QUOTA_ATTACH_OTHER_COPY",
            Self::AttachUnsupported => "ERR_QUOTA_ATTACH_UNSUPPORTED",
            Self::AttachFileInUse => "ERR_QUOTA_ATTACH_FILE_IN_USE",
            Self::AttachRefused => "ERR_QUOTA_ATTACH_REFUSED",
            Self::Open => "ERR_QUOTA_OPEN",
            Self::Database => "ERR_QUOTA_DATABASE",
            Self::StoreUnavailable => "ERR_QUOTA_STORE_UNAVAILABLE",
            Self::StoreTimeout => "ERR_QUOTA_STORE_TIMEOUT",
            Self::StoreRefused => "ERR_QUOTA_STORE_REFUSED",
            Self::PoolProviders => "ERR_QUOTA_POOL_PROVIDERS",
            Self::GroupInUse => "ERR_QUOTA_GROUP_IN_USE",
            Self::Reentrant => "ERR_QUOTA_REENTRANT",
            Self::Internal => "ERR_QUOTA_INTERNAL",
        }
    }
}

impl From<napi::Status> for Code {
    fn from(status: napi::Status) -> Self {
        match status {
            napi::Status::InvalidArg
            | napi::Status::ObjectExpected
            | napi::Status::StringExpected
            | napi::Status::NumberExpected
            | napi::Status::BooleanExpected
            | napi::Status::ArrayExpected => Self::InvalidArgument,
            _ => Self::Internal,
        }
    }
}

pub type Result<T> = std::result::Result<T, napi::Error<Code>>;

pub fn fail<T>(code: Code, message: impl Into<String>) -> Result<T> {
    Err(napi::Error::new(code, message.into()))
}

impl From<AttachError> for napi::Error<Code> {
    fn from(error: AttachError) -> Self {
        let code = match &error {
            AttachError::OtherCopy => Code::AttachOtherCopy,
            AttachError::Unsupported(_) => Code::AttachUnsupported,
            AttachError::FileInUse => Code::AttachFileInUse,
            AttachError::Refused(_) => Code::AttachRefused,
            AttachError::Open(_) => Code::Open,
        };
        Self::new(code, error.to_string())
    }
}
