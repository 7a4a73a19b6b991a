//! The page after a sign-up, `/console/welcome`.

use tests::{World, world::cookie};

use super::{filled, follow, location, open, submit};

const PAGE: &str = "/console/welcome";

#[tokio::test(flavor = "multi_thread")]
async fn a_new_account_sees_where_the_link_was_sent_and_resends_it() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let (cookie, email) = (cookie(&account), account["email"].as_str().expect("an address"));
    assert_eq!(location(&open(&world, &cookie, "/console").await), PAGE);
    let page = open(&world, &cookie, PAGE).await;
    assert_eq!(page.status, 200);
    assert!(page.page().contains(&format!("We sent a link to <strong>{email}</strong>.")), "{}", page.page());
    let sent = submit(&world, &cookie, PAGE, &filled(&page, "Resend confirmation email", &[])).await;
    let page = follow(&world, &cookie, &sent).await;
    assert!(page.page().contains("Email sent.") && world.mails().await.len() == 2);
    let link = tests::world::link(&world.mail_to(email).await);
    assert_eq!(world.confirm(&link).await.status, 200);
    for path in [PAGE, "/console/welcome?did=mailed"] {
        assert_eq!(location(&open(&world, &cookie, path).await), "/console");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_resends_are_refused_on_the_page() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    let form = [("action".to_owned(), "verify".to_owned())];
    let refused = loop {
        let answer = submit(&world, &cookie, PAGE, &form).await;
        if answer.status != 303 {
            break answer;
        }
        assert!(world.mails().await.len() < 20, "there is a limit");
    };
    assert_eq!(refused.status, 429);
    assert!(refused.page().contains("Too many attempts") && refused.page().contains("We sent a link to"));
    let unknown = submit(&world, &cookie, PAGE, &[("action".to_owned(), "x".to_owned())]).await;
    assert_eq!(unknown.status, 404);
}
