//! Builds stores, and the apps made of them, from a function's settings.

use crate::{
    aws::clients::Aws,
    config::{ConfigError, Env},
};

/// A value that a function builds once, when it starts.
pub trait FromEnv: Sized {
    /// Builds the value with the settings in `env`.
    fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError>;
}

impl FromEnv for () {
    fn from_env(_: &Env, _: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(())
    }
}

impl FromEnv for aws_sdk_dynamodb::Client {
    fn from_env(_: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(aws.dynamodb())
    }
}

impl FromEnv for aws_sdk_ses::Client {
    fn from_env(_: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(aws.ses())
    }
}

impl FromEnv for aws_sdk_sqs::Client {
    fn from_env(_: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(aws.sqs())
    }
}

/// Declares a struct with a `from_env` that builds each field: with [`FromEnv`], with `= "VARIABLE"` from a required
/// variable, or with `= function`, which gets the [`Env`].
#[macro_export]
macro_rules! from_env {
    (@field $env:ident, $aws:ident) => {
        $crate::aws::from_env::FromEnv::from_env($env, $aws)?
    };
    (@field $env:ident, $aws:ident, $variable:literal) => {
        $env.required($variable)?
    };
    (@field $env:ident, $aws:ident, $($function:tt)::+) => {
        $($function)::+($env)?
    };
    ($(#[$about:meta])* $vis:vis struct $name:ident {
        $($(#[$about_field:meta])* $vis_field:vis $field:ident: $type:ty $(= $($value:tt)::+)?),+ $(,)?
    }) => {
        $(#[$about])*
        $vis struct $name {
            $($(#[$about_field])* $vis_field $field: $type,)+
        }

        impl $name {
            $vis fn from_env(
                env: &$crate::config::Env,
                aws: &$crate::aws::clients::Aws<'_>,
            ) -> Result<Self, $crate::config::ConfigError> {
                Ok(Self { $($field: $crate::from_env!(@field env, aws $(, $($value)::+)?)),+ })
            }
        }

        impl $crate::aws::from_env::FromEnv for $name {
            fn from_env(
                env: &$crate::config::Env,
                aws: &$crate::aws::clients::Aws<'_>,
            ) -> Result<Self, $crate::config::ConfigError> {
                Self::from_env(env, aws)
            }
        }
    };
}
