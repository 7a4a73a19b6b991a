//! A function's settings, from environment variables. No other module reads the environment.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use aws_smithy_runtime_api::client::http::SharedHttpClient;

/// The source of a function's settings: in Lambda, the process environment; in the local runner and the tests, exactly
/// the variables that the template sets for the function.
pub struct Env {
    lookup: ReadVariable,
    aws: Option<SharedHttpClient>,
}

type ReadVariable = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl Env {
    /// Reads settings from this process's environment.
    pub fn process() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }

    /// Reads settings through `lookup`.
    pub fn new(lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { lookup: Box::new(lookup), aws: None }
    }

    /// Makes all AWS clients use the HTTP client `client`.
    pub fn over(self, client: SharedHttpClient) -> Self {
        Self { aws: Some(client), ..self }
    }

    /// The HTTP client set by [`Env::over`].
    pub(crate) fn aws(&self) -> Option<SharedHttpClient> {
        self.aws.clone()
    }

    /// The variable `name`, unless it is unset or empty.
    pub fn optional(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    /// The variable `name`.
    pub fn required(&self, name: &'static str) -> Result<String, ConfigError> {
        self.optional(name).ok_or_else(|| ConfigError::new(name, "is not set"))
    }

    /// The variable `name`, parsed.
    pub fn parsed<T: FromStr<Err: fmt::Display>>(&self, name: &'static str) -> Result<T, ConfigError> {
        self.required(name)?.trim().parse().map_err(|error| ConfigError::new(name, format!("does not parse: {error}")))
    }

    /// The number in the variable `name`, which must be within `range`.
    pub fn number<T>(&self, name: &'static str, range: RangeInclusive<T>) -> Result<T, ConfigError>
    where
        T: FromStr<Err: fmt::Display> + PartialOrd + fmt::Display,
    {
        let number = self.parsed(name)?;
        if range.contains(&number) { Ok(number) } else { Err(out_of_range(name, &number, &range)) }
    }

    /// The comma-separated numbers in the variable `name`, at most `most`, each within `range`.
    pub fn numbers<T>(&self, name: &'static str, range: &RangeInclusive<T>, most: usize) -> Result<Vec<T>, ConfigError>
    where
        T: FromStr<Err: fmt::Display> + PartialOrd + fmt::Display,
    {
        let numbers = self.list(name)?;
        if numbers.len() > most {
            return Err(ConfigError::new(name, format!("has {} numbers and may have at most {most}", numbers.len())));
        }
        match numbers.iter().find(|number| !range.contains(number)) {
            None => Ok(numbers),
            Some(number) => Err(out_of_range(name, number, range)),
        }
    }

    /// The comma-separated list in the variable `name`. The variable must be set even for an empty list, which is then
    /// an explicit choice.
    pub fn list<T: FromStr<Err: fmt::Display>>(&self, name: &'static str) -> Result<Vec<T>, ConfigError> {
        let value = (self.lookup)(name).ok_or_else(|| ConfigError::new(name, "is not set"))?;
        value
            .split(',')
            .map(str::trim)
            .filter(|element| !element.is_empty())
            .map(|element| {
                element.parse().map_err(|error| ConfigError::new(name, format!("'{element}' does not parse: {error}")))
            })
            .collect()
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Env")
    }
}

fn out_of_range<T: fmt::Display>(name: &'static str, number: &T, range: &RangeInclusive<T>) -> ConfigError {
    ConfigError::new(name, format!("is {number} and must be from {} to {}", range.start(), range.end()))
}

/// A missing or invalid setting, which stops the function at startup. Functions that do not return any other error have
/// no `# Errors` section.
#[derive(Debug)]
pub struct ConfigError {
    variable: &'static str,
    problem: String,
}

impl ConfigError {
    /// Describes a problem with `variable`. `problem` completes the sentence "environment variable `VARIABLE` ...".
    pub fn new(variable: &'static str, problem: impl Into<String>) -> Self {
        Self { variable, problem: problem.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "environment variable {} {}", self.variable, self.problem)
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(value: Option<&'static str>) -> Env {
        Env::new(move |_| value.map(str::to_owned))
    }

    #[test]
    fn an_error_names_the_variable() {
        let missing = env(None).required("USERS_TABLE").expect_err("nothing is set");
        assert_eq!(missing.to_string(), "environment variable USERS_TABLE is not set");
        let garbage = env(Some("many")).parsed::<u32>("MAX_ENDPOINTS_PER_TENANT").expect_err("not a number");
        assert!(garbage.to_string().starts_with("environment variable MAX_ENDPOINTS_PER_TENANT does not parse"));
    }

    #[test]
    fn a_number_out_of_its_range_is_refused_with_the_range() {
        assert_eq!(env(Some("400")).number("MAX_CONCURRENT_ATTEMPTS", 1..=400).expect("the last"), 400);
        for (value, problem) in [("0", "is 0 and must be from 1 to 400"), ("401", "is 401 and must be from 1 to 400")] {
            let error = env(Some(value)).number("MAX_CONCURRENT_ATTEMPTS", 1..=400).expect_err(value);
            assert_eq!(error.to_string(), format!("environment variable MAX_CONCURRENT_ATTEMPTS {problem}"));
        }
        let schedule = |value| env(Some(value)).numbers("RETRY_SCHEDULE", &(1..=60), 3);
        assert_eq!(schedule("1,60").expect("both ends"), [1, 60]);
        assert!(schedule("").expect("none").is_empty());
        assert!(schedule("1,61").is_err() && schedule("0").is_err() && schedule("1,1,1,1").is_err());
    }

    #[test]
    fn a_list_may_be_empty_but_not_missing() {
        assert!(env(Some("")).list::<u32>("RETRY_SCHEDULE").expect("empty").is_empty());
        assert_eq!(env(Some("5, 300")).list::<u32>("RETRY_SCHEDULE").expect("two"), [5, 300]);
        assert!(env(None).list::<u32>("RETRY_SCHEDULE").is_err());
        assert!(env(Some("5,x")).list::<u32>("RETRY_SCHEDULE").is_err());
    }
}
