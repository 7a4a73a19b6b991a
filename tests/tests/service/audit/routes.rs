//! Each route that makes changes records them, or is listed here with the reason why it does not.

use std::collections::BTreeSet;

/// The routes that do not record a change, by reason. A route for keys with a scope for reading needs none.
const SILENT: [(&str, &[&str]); 5] = [
    (
        "it only reads",
        &[
            "/api/auth/organization/set-active",
            "/api/auth/two-factor/get-totp-uri",
            "/console/verify/{id}",
            "/v1/auth/inviteDetails",
            "/v1/auth/status",
        ],
    ),
    (
        "it only sends an email",
        &["/api/auth/request-password-reset", "/api/auth/send-verification-email", "/v1/auth/requestPasswordReset"],
    ),
    ("the second factor is recorded once its first code enables it", &["/api/auth/two-factor/enable"]),
    (
        "the session that a login creates is recorded once the client fetches it",
        &["/v1/auth/cliLoginApprove", "/v1/auth/cliLoginCreate"],
    ),
    ("the delivery log records the leases of deliveries", &["/v1/deliveries/receive"]),
];

#[test]
fn each_route_records_its_changes_or_has_a_reason_not_to() {
    let document = local::openapi().expect("the functions match the template");
    let paths = document["paths"].as_object().expect("paths").iter();
    let silent = paths.filter(|(_, methods)| {
        let Some(post) = methods.get("post") else { return false };
        let records = post["description"].as_str().unwrap_or_default().contains("The audit log records");
        let only_reads = post["security"][0]["key"][0].as_str().is_some_and(|scope| scope.ends_with(":read"));
        !records && !only_reads
    });
    let excused = SILENT.iter().flat_map(|(_, paths)| paths.iter().copied()).collect::<BTreeSet<_>>();
    assert_eq!(silent.map(|(path, _)| path.as_str()).collect::<BTreeSet<_>>(), excused);
}
