//! Reads an input's fields. All fields are read before the input is rejected, so the caller gets all issues at once.
//! Run without values, the same code [describes](descriptions) the fields.

use std::{collections::BTreeMap, ops::RangeInclusive};

use api::MAX_ELEMENTS;
use lambda_http::http::HeaderValue;
use schemars::JsonSchema;

use super::json::{Json, Object};
#[cfg(feature = "openapi")]
use super::shapes::FieldDescriptions;
use crate::{
    application::idempotency::{IdempotencyKey, InputHash},
    error::{Error, Result},
    issue::{Issue, IssueCode, MemberProblem, Problem},
    patch::Patch,
    timestamp::Timestamp,
};

mod descriptions;
mod options;
pub(super) mod text_fields;

/// The header with a call's idempotency key.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The values for `is_required`.
const REQUIRED: bool = true;
const OPTIONAL: bool = false;

/// An input's fields, and the issues found so far.
pub struct Fields {
    values: Object,
    issues: Vec<Issue>,
    /// The call's idempotency key, and the hash of all values.
    key: Option<(HeaderValue, InputHash)>,
    #[cfg(feature = "openapi")]
    description: Option<FieldDescriptions>,
}

/// A field was rejected. The issue is recorded in the [`Fields`]. Functions that do not return any other error have no
/// `# Errors` section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected;

/// The message for a string with an unpaired surrogate.
const NOT_UNICODE: &str = "Must be valid Unicode, without unpaired surrogates";

impl Fields {
    /// Reads an input from `values`.
    pub(super) fn read<I>(values: Object, read: impl FnOnce(&mut Self) -> Result<I, Rejected>) -> Result<I> {
        let mut fields = Self {
            values,
            issues: Vec::new(),
            key: None,
            #[cfg(feature = "openapi")]
            description: None,
        };
        match read(&mut fields) {
            Ok(input) if fields.issues.is_empty() => Ok(input),
            _ => Err(Error::Invalid(fields.issues)),
        }
    }

    /// Sets the call's idempotency key, which covers the current values. Must be called before any field is read.
    pub(super) fn set_key(&mut self, header: Option<&HeaderValue>) {
        self.key = header.map(|header| (header.clone(), hash(&self.values)));
    }

    /// Reads the header `idempotency-key`, if present. The key covers all the call's fields, in any order.
    pub fn idempotency_key(&mut self) -> Result<Option<IdempotencyKey>, Rejected> {
        self.note_key();
        let Some((header, fields)) = self.key.take() else { return Ok(None) };
        IdempotencyKey::parse(header.as_bytes(), fields).map(Some).map_err(|problems| {
            for problem in problems {
                self.reject(IDEMPOTENCY_KEY, problem);
            }
            Rejected
        })
    }

    /// Reads a required string.
    pub fn text<T: JsonSchema>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<T, Rejected> {
        self.note::<T>(name, REQUIRED);
        match self.values.remove(name) {
            None => Err(self.wrong_type(name, "Required")),
            Some(value) => self.parse(name, &value, parse),
        }
    }

    /// Reads a required string, or an array with one string, because some clients send such an array.
    pub fn text_or_list_of_one<T: JsonSchema>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<T, Rejected> {
        if let Some(Json::List(elements)) = self.values.get_mut(name) {
            if let Some(problem) = Problem::count(elements.len(), 1, 1) {
                return Err(self.reject(name, problem));
            }
            let only = elements.pop();
            self.values.extend(only.map(|only| (name.to_owned(), only)));
        }
        self.text(name, parse)
    }

    /// Reads a string that may be absent. As for all optional values, `null` counts as absent, because many clients send
    /// it for a value that is not set.
    pub fn optional_text<T: JsonSchema>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Option<T>, Rejected> {
        self.note::<Option<T>>(name, OPTIONAL);
        self.take(name).map(|value| self.parse(name, &value, parse)).transpose()
    }

    /// Reads a string that may be absent, but not `null`, which could mean a change.
    pub fn optional_text_without_null<T: JsonSchema>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Option<T>, Rejected> {
        self.note::<T>(name, OPTIONAL);
        self.values.remove(name).map(|value| self.parse(name, &value, parse)).transpose()
    }

    /// Takes a value that is present and not `null`.
    fn take(&mut self, name: &str) -> Option<Json> {
        self.values.remove(name).filter(|value| *value != Json::Null)
    }

    /// Reads a string that may be absent (keep the current value) or `null` (remove the value).
    pub fn nullable_text<T: JsonSchema>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Patch<T>, Rejected> {
        self.note::<Option<T>>(name, OPTIONAL);
        match self.values.remove(name) {
            None => Ok(Patch::Keep),
            Some(Json::Null) => Ok(Patch::Clear),
            Some(value) => self.parse(name, &value, parse).map(Patch::Set),
        }
    }

    /// Reads an array of 1 to `most` strings that may be absent (keep the current value) or `null` (remove the value).
    pub fn nullable_list<T, L: FromIterator<T> + JsonSchema>(
        &mut self,
        name: &'static str,
        most: usize,
        parse: impl Fn(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Patch<L>, Rejected> {
        self.note::<Option<L>>(name, OPTIONAL);
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            description.bound_list(name, most);
        }
        let elements = match self.values.remove(name) {
            None => return Ok(Patch::Keep),
            Some(Json::Null) => return Ok(Patch::Clear),
            Some(Json::List(elements)) => elements,
            Some(_) => return Err(self.wrong_type(name, "Must be an array")),
        };
        if let Some(problem) = Problem::count(elements.len(), 1, most) {
            return Err(self.reject(name, problem));
        }
        let before = self.issues.len();
        let parsed = elements.iter().enumerate().filter_map(|(index, element)| {
            let parsed = match element {
                Json::Text(text) => parse(text),
                Json::Garbled => Err(vec![Problem::format(NOT_UNICODE)]),
                _ => Err(vec![Problem { code: IssueCode::InvalidType, message: "Must be a string".to_owned() }]),
            };
            let issue =
                |Problem { code, message }| Issue { code, path: vec![name.to_owned(), index.to_string()], message };
            parsed.map_err(|problems| self.issues.extend(problems.into_iter().map(issue))).ok()
        });
        let list = parsed.collect();
        if self.issues.len() == before { Ok(Patch::Set(list)) } else { Err(Rejected) }
    }

    /// Reads an object that may be absent (keep the current value) or `null` (remove the value). `parse` gets each
    /// member's name and, if it is a string, its value.
    pub fn nullable_object<T: JsonSchema>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&[(&str, Option<&str>)]) -> Result<T, Vec<MemberProblem>>,
    ) -> Result<Patch<T>, Rejected> {
        self.note::<Option<T>>(name, OPTIONAL);
        let members = match self.values.remove(name) {
            None => return Ok(Patch::Keep),
            Some(Json::Null) => return Ok(Patch::Clear),
            Some(Json::Members(members)) => members,
            Some(_) => return Err(self.wrong_type(name, "Must be an object")),
        };
        let texts = members.iter().map(|(member, value)| match value {
            Json::Text(text) => (member.as_str(), Some(text.as_str())),
            _ => (member.as_str(), None),
        });
        parse(&texts.collect::<Vec<_>>()).map(Patch::Set).map_err(|problems| {
            for MemberProblem { member, problem: Problem { code, message } } in problems {
                let path = [name.to_owned()].into_iter().chain(member).collect();
                self.issues.push(Issue { code, path, message });
            }
            Rejected
        })
    }

    /// Reads a required object with `read`.
    pub fn object<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&mut Self) -> Result<T, Rejected>,
    ) -> Result<T, Rejected> {
        self.note_object(name, &read);
        let members = match self.values.remove(name) {
            None => return Err(self.wrong_type(name, "Required")),
            Some(Json::Members(members)) => members,
            Some(_) => return Err(self.wrong_type(name, "Must be an object")),
        };
        Self::read(members.into_iter().collect(), read).map_err(|error| {
            if let Error::Invalid(issues) = error {
                let within = |issue: Issue| Issue { path: [vec![name.to_owned()], issue.path].concat(), ..issue };
                self.issues.extend(issues.into_iter().map(within));
            }
            Rejected
        })
    }

    /// Reads an array of 1 to 100 objects, each with `read`.
    pub fn objects<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&mut Self) -> Result<T, Rejected>,
    ) -> Result<Vec<T>, Rejected> {
        self.note_objects(name, &read);
        let elements = match self.values.remove(name) {
            None => return Err(self.wrong_type(name, "Required")),
            Some(Json::List(elements)) => elements,
            Some(_) => return Err(self.wrong_type(name, "Must be an array")),
        };
        if let Some(problem) = Problem::count(elements.len(), 1, MAX_ELEMENTS) {
            return Err(self.reject(name, problem));
        }
        let (before, mut all) = (self.issues.len(), Vec::with_capacity(elements.len()));
        for (index, element) in elements.into_iter().enumerate() {
            let index = index.to_string();
            let read = match element {
                Json::Members(members) => Self::read(members.into_iter().collect(), &read),
                _ => Err(Error::Invalid(vec![Issue {
                    code: IssueCode::InvalidType,
                    path: Vec::new(),
                    message: "Must be an object".to_owned(),
                }])),
            };
            match read {
                Ok(element) => all.push(element),
                Err(Error::Invalid(issues)) => self.issues.extend(issues.into_iter().map(|issue| Issue {
                    path: [name.to_owned(), index.clone()].into_iter().chain(issue.path).collect(),
                    ..issue
                })),
                Err(_) => return Err(Rejected),
            }
        }
        if self.issues.len() == before { Ok(all) } else { Err(Rejected) }
    }

    /// Reads a boolean that may be absent.
    pub fn optional_bool(&mut self, name: &'static str) -> Result<Option<bool>, Rejected> {
        self.note::<Option<bool>>(name, OPTIONAL);
        self.take(name).map(|value| self.boolean(name, &value)).transpose()
    }

    /// Reads a boolean that may be absent, but not `null`, which could mean either value.
    pub fn optional_bool_without_null(&mut self, name: &'static str) -> Result<Option<bool>, Rejected> {
        self.note::<bool>(name, OPTIONAL);
        self.values.remove(name).map(|value| self.boolean(name, &value)).transpose()
    }

    fn boolean(&mut self, name: &str, value: &Json) -> Result<bool, Rejected> {
        match value {
            Json::Bool(value) => Ok(*value),
            _ => Err(self.wrong_type(name, "Must be true or false")),
        }
    }

    /// Whether the field is `null`.
    fn is_null(&self, name: &str) -> bool {
        matches!(self.values.get(name), Some(Json::Null))
    }

    /// Reads a boolean that may be absent (keep the current value) or `null` (remove the value).
    pub fn nullable_bool(&mut self, name: &'static str) -> Result<Patch<bool>, Rejected> {
        self.note::<Option<bool>>(name, OPTIONAL);
        match self.values.remove(name) {
            None => Ok(Patch::Keep),
            Some(Json::Null) => Ok(Patch::Clear),
            Some(Json::Bool(value)) => Ok(Patch::Set(value)),
            Some(_) => Err(self.wrong_type(name, "Must be true or false")),
        }
    }

    /// Reads a whole number that may be absent.
    pub fn optional_number(&mut self, name: &'static str, range: RangeInclusive<u32>) -> Result<Option<u32>, Rejected> {
        let whole = |value| if let Json::Number(number) = value { Some(number) } else { None };
        let read = self.optional_whole(name, &range, whole);
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            description.allow_null(name);
        }
        read
    }

    /// Reads a whole number that may be absent from a query, whose values are all strings.
    pub fn optional_number_in_query(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, Rejected> {
        self.optional_whole(name, &range, |value| if let Json::Text(text) = value { text.parse().ok() } else { None })
    }

    fn optional_whole(
        &mut self,
        name: &'static str,
        range: &RangeInclusive<u32>,
        whole: impl FnOnce(Json) -> Option<i64>,
    ) -> Result<Option<u32>, Rejected> {
        self.note_number(name, range);
        let (least, most) = (*range.start(), *range.end());
        let Some(value) = self.take(name) else { return Ok(None) };
        let Some(number) = whole(value) else { return Err(self.wrong_type(name, "Must be a whole number")) };
        let (code, message) = match u32::try_from(number) {
            Ok(number) if range.contains(&number) => return Ok(Some(number)),
            _ if number < i64::from(least) => (IssueCode::TooSmall, format!("Must be at least {least}")),
            _ => (IssueCode::TooBig, format!("Must be at most {most}")),
        };
        Err(self.reject(name, Problem { code, message }))
    }

    /// Rejects fields that similar APIs support but this one does not, because ignoring them would lead to a wrong
    /// response.
    pub fn refuse(&mut self, names: &[&str]) -> Result<(), Rejected> {
        let before = self.issues.len();
        for name in names.iter().filter(|name| self.values.contains_key(**name)).collect::<Vec<_>>() {
            self.reject(name, Problem::format("Is not supported here"));
        }
        if self.issues.len() == before { Ok(()) } else { Err(Rejected) }
    }

    /// Rejects a period whose end, in this field, is before its beginning.
    pub fn period(&mut self, end: &str, since: Option<Timestamp>, until: Option<Timestamp>) -> Result<(), Rejected> {
        if since.is_none() || until.is_none() || since <= until {
            return Ok(());
        }
        let message = "Must not be before the start of the period".to_owned();
        Err(self.reject(end, Problem { code: IssueCode::TooSmall, message }))
    }

    /// Records a problem with a field, or with its combination with other fields.
    pub fn reject(&mut self, name: &str, Problem { code, message }: Problem) -> Rejected {
        self.issues.push(Issue { code, path: vec![name.to_owned()], message });
        Rejected
    }

    fn parse<T>(
        &mut self,
        name: &str,
        value: &Json,
        parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<T, Rejected> {
        let text = match value {
            Json::Text(text) => text,
            Json::Garbled => return Err(self.reject(name, Problem::format(NOT_UNICODE))),
            _ => return Err(self.wrong_type(name, "Must be a string")),
        };
        parse(text).map_err(|problems| {
            for problem in problems {
                self.reject(name, problem);
            }
            Rejected
        })
    }

    fn wrong_type(&mut self, name: &str, message: &str) -> Rejected {
        self.reject(name, Problem { code: IssueCode::InvalidType, message: message.to_owned() })
    }
}

/// The hash of all values, independent of their order.
fn hash(values: &Object) -> InputHash {
    let sorted: BTreeMap<_, _> = values.iter().collect();
    #[expect(clippy::expect_used, reason = "strings, numbers and booleans are JSON")]
    InputHash::of(&serde_json::to_vec(&sorted).expect("JSON"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        http::json::Document,
        name::{Name, Slug},
    };

    fn values(value: serde_json::Value) -> Object {
        match serde_json::from_str(&value.to_string()).expect("JSON") {
            Document::Object(object) => object,
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn every_issue_of_every_field_is_found() {
        let values = values(json!({"slug": "A", "active": null, "url": 7}));
        let read = Fields::read(values, |fields| {
            let name = fields.text("name", Name::parse);
            let slug = fields.text("slug", Slug::parse);
            let active = fields.optional_bool_without_null("active");
            let url = fields.optional_text("url", Name::parse);
            Ok((name?, slug?, active?, url?))
        });
        let Err(Error::Invalid(issues)) = read else { unreachable!("issues") };
        let found: Vec<_> = issues.iter().map(|issue| (issue.path[0].as_str(), issue.code)).collect();
        assert_eq!(
            found,
            [
                ("name", IssueCode::InvalidType),
                ("slug", IssueCode::TooSmall),
                ("slug", IssueCode::InvalidFormat),
                ("active", IssueCode::InvalidType),
                ("url", IssueCode::InvalidType),
            ]
        );
    }

    /// Stored calls are found by this hash for a day, even after an upgrade.
    #[test]
    fn the_hash_of_values_stays_as_it_is() {
        let all = json!({
            "null": null, "bool": true, "text": "é", "number": -7, "list": ["a", null, [1], {"b": 2}],
            "fraction": 1.5, "object": {"c": 3},
        });
        let hash = hash(&values(all)).to_string();
        assert_eq!(hash, "9285c088349a5eaad9de5b7ea2841c374a0ed68478d4b85faaeb3adbba444a90");
    }

    #[test]
    fn a_key_is_for_exactly_these_values() {
        let key = |value, header| {
            Fields::read(values(value), |fields| {
                fields.set_key(Some(&HeaderValue::from_static(header)));
                let name = fields.text("name", Name::parse);
                let key = fields.idempotency_key();
                name.and(key)
            })
        };
        let of = |value| key(value, "k").expect("no issue");
        let first = of(json!({"name": "Ada", "active": true, "more": 1}));
        assert!(first.is_some());
        assert_eq!(of(json!({"more": 1, "active": true, "name": "Ada"})), first);
        for other in [
            json!({"name": "Ada", "active": true}),
            json!({"name": "Ada", "active": true, "more": 2}),
            json!({"name": "Ada", "active": true, "more": "1"}),
            json!({"name": "Ada", "active": true, "more": {"a": 1}}),
            json!({"name": "Ada", "active": "true", "more": 1}),
            json!({"name": "Adam", "active": true, "more": 1}),
        ] {
            assert_ne!(of(other.clone()), first, "{other}");
        }
        assert_ne!(key(json!({"name": "Ada", "active": true, "more": 1}), "l").expect("no issue"), first);
        let object = |text: &str| {
            of(json!({"name": "Ada", "more": serde_json::from_str::<serde_json::Value>(text).expect("JSON")}))
        };
        assert_eq!(object(r#"{"a": "1", "b": "2"}"#), object(r#"{"b": "2", "a": "1"}"#));
        assert_ne!(object(r#"{"a": "1", "b": "2"}"#), object(r#"{"a": "1", "b": "3"}"#));
        let Err(Error::Invalid(issues)) = key(json!({}), "") else { unreachable!("issues") };
        let found: Vec<_> = issues.iter().map(|issue| (issue.path[0].as_str(), issue.code)).collect();
        assert_eq!(found, [("name", IssueCode::InvalidType), ("idempotency-key", IssueCode::TooSmall)]);
    }

    #[test]
    fn absent_and_null_are_not_the_same() {
        let read = |value| {
            Fields::read(values(value), |fields| fields.nullable_text("description", Name::parse)).expect("no issue")
        };
        assert_eq!(read(json!({"description": null})), Patch::Clear);
        assert_eq!(read(json!({})), Patch::Keep);
    }

    #[test]
    fn a_list_has_an_issue_for_each_bad_element() {
        let read = |value| {
            Fields::read(values(json!({"names": value})), |fields| {
                fields.nullable_list::<_, Vec<Name>>("names", MAX_ELEMENTS, Name::parse)
            })
        };
        let Patch::Set(names) = read(json!(["a", " b "])).expect("no issue") else { unreachable!("a list") };
        assert_eq!(names.iter().map(Name::as_str).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(read(json!(null)).expect("no issue"), Patch::Clear);
        let issues = |value| {
            let Err(Error::Invalid(issues)) = read(value) else { unreachable!("issues") };
            issues.into_iter().map(|issue| (issue.path.join("."), issue.code)).collect::<Vec<_>>()
        };
        let issue = |path: &str, code| (path.to_owned(), code);
        assert_eq!(
            issues(json!(["a", null, "", ["a"], "\n\u{7}"])),
            [
                issue("names.1", IssueCode::InvalidType),
                issue("names.2", IssueCode::TooSmall),
                issue("names.3", IssueCode::InvalidType),
                issue("names.4", IssueCode::InvalidFormat),
                issue("names.4", IssueCode::InvalidFormat),
            ]
        );
        assert_eq!(issues(json!([])), [issue("names", IssueCode::TooSmall)]);
        assert_eq!(issues(json!(vec![7; 101])), [issue("names", IssueCode::TooBig)]);
        assert_eq!(issues(json!("a")), [issue("names", IssueCode::InvalidType)]);
    }

    #[test]
    fn a_list_of_one_text_is_that_text() {
        let read =
            |value| Fields::read(values(json!({"a": value})), |fields| fields.text_or_list_of_one("a", Slug::parse));
        for value in [json!("ab"), json!(["ab"])] {
            assert_eq!(read(value).expect("no issue").as_str(), "ab");
        }
        for (value, expected) in [
            (json!([]), IssueCode::TooSmall),
            (json!(["ab", "ab"]), IssueCode::TooBig),
            (json!([["ab"]]), IssueCode::InvalidType),
            (json!([null]), IssueCode::InvalidType),
            (json!({"0": "ab"}), IssueCode::InvalidType),
            (json!(["A!"]), IssueCode::InvalidFormat),
        ] {
            let Err(Error::Invalid(issues)) = read(value.clone()) else { unreachable!("{value}") };
            assert_eq!(issues.iter().map(|issue| issue.code).collect::<Vec<_>>(), [expected], "{value}");
        }
    }

    #[test]
    fn null_counts_as_absent_in_every_optional_field() {
        let nulls = json!({"text": null, "number": null, "bool": null, "list": null, "patch": null, "only": null});
        let read = Fields::read(values(nulls), |fields| {
            let text = fields.optional_text("text", Name::parse);
            let number = fields.optional_number("number", 1..=9);
            let bool = fields.optional_bool("bool");
            let list: Result<Patch<Vec<Name>>, _> = fields.nullable_list("list", 9, Name::parse);
            let patch = fields.nullable_text("patch", Name::parse);
            let only = fields.text("only", Name::parse);
            assert!(matches!((text, number, bool), (Ok(None), Ok(None), Ok(None))));
            assert!(matches!((list, patch), (Ok(Patch::Clear), Ok(Patch::Clear))));
            only
        });
        assert!(matches!(read, Err(Error::Invalid(issues)) if issues.len() == 1), "a required field needs a value");
    }

    #[test]
    fn a_number_is_whole_and_within_its_range() {
        let read =
            |value| Fields::read(values(json!({"limit": value})), |fields| fields.optional_number("limit", 1..=100));
        assert_eq!(read(json!(1)).expect("no issue"), Some(1));
        assert_eq!(read(json!(100)).expect("no issue"), Some(100));
        assert_eq!(read(json!(2.0)).expect("no issue"), Some(2));
        for (value, expected) in [
            (json!(0), IssueCode::TooSmall),
            (json!(-1), IssueCode::TooSmall),
            (json!(i64::MIN), IssueCode::TooSmall),
            (json!(101), IssueCode::TooBig),
            (json!(65_537), IssueCode::TooBig),
            (json!(u64::MAX), IssueCode::TooBig),
            (json!(1.5), IssueCode::InvalidType),
            (json!(100.5), IssueCode::InvalidType),
            (json!(0.0), IssueCode::TooSmall),
            (json!(4_294_967_297.0), IssueCode::TooBig),
            (json!(1e300), IssueCode::TooBig),
            (json!(-1e300), IssueCode::TooSmall),
            (json!("20"), IssueCode::InvalidType),
        ] {
            let Err(Error::Invalid(issues)) = read(value.clone()) else { unreachable!("{value}") };
            assert_eq!(issues.iter().map(|issue| issue.code).collect::<Vec<_>>(), [expected], "{value}");
        }
    }

    #[test]
    fn a_number_in_a_query_is_a_text() {
        let read = |value| {
            Fields::read(values(json!({"limit": value})), |fields| fields.optional_number_in_query("limit", 1..=100))
        };
        assert_eq!(read(json!("20")).expect("no issue"), Some(20));
        for (text, expected) in [
            ("0", IssueCode::TooSmall),
            ("-1", IssueCode::TooSmall),
            ("101", IssueCode::TooBig),
            ("4294967297", IssueCode::TooBig),
            ("", IssueCode::InvalidType),
            ("x", IssueCode::InvalidType),
            ("2.0", IssueCode::InvalidType),
        ] {
            let Err(Error::Invalid(issues)) = read(json!(text)) else { unreachable!("{text}") };
            assert_eq!(issues.iter().map(|issue| issue.code).collect::<Vec<_>>(), [expected], "{text}");
        }
    }
}
