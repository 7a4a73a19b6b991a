//! Finding one of many endpoints: the search and the states on the first page, and the filter of the deliveries.

use common::timestamp::Timestamp;
use serde_json::{Value, json};
use tests::{Answer, Browser, Tenant, World, event};

use super::{says, text};

/// Creates endpoints with the numbers from 1000 on, each with the description `Customer <number>`. Returns their ids.
async fn customers(world: &World, tenant: &Tenant, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 1000..1000 + count {
        let url = format!("http://127.0.0.1:9/hooks/{number}");
        let fields = json!({"url": url, "description": format!("Customer {number}")});
        let made = world.rpc(&tenant.key, "webhooks/create", fields).await;
        ids.push(made.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned());
    }
    ids
}

/// Sets attributes of the endpoints with these ids, as the service does when their receivers fail.
async fn set(world: &World, ids: &[&String], attributes: Value) {
    let is_one = |item: &tests::world::tables::Item| {
        let id = item["webhook_endpoint_id"].as_s().expect("a key");
        ids.contains(&id)
    };
    assert_eq!(world.set_where("webhook-endpoints", is_one, &attributes).await, ids.len());
}

/// The numbers of the endpoints in the page's table, in its order.
fn shown(page: &Answer) -> Vec<usize> {
    let (_, table) = page.page().split_once("<tbody>").unwrap_or_default();
    let rows = table.split("<tr>").skip(1).filter_map(|row| row.split_once("Customer "));
    rows.filter_map(|(_, rest)| rest.get(..4)?.parse().ok()).collect()
}

/// The target of the link with these words, which may be followed by a number.
fn link(page: &Answer, words: &str) -> String {
    let links = page.page().split("<a ").skip(1).filter(|link| {
        let words_of = link.split_once('>').map_or("", |(_, shown)| shown);
        words_of.split('<').next().is_some_and(|shown| shown.trim() == words)
    });
    let links: Vec<_> = links.collect();
    assert_eq!(links.len(), 1, "{words}: {}", page.page());
    let (_, to) = links[0].split_once("href=\"").expect("a target");
    to.split('"').next().unwrap_or_default().replace("&amp;", "&")
}

#[tokio::test(flavor = "multi_thread")]
async fn seventeen_failing_of_290_endpoints_are_found() {
    let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "290")]).await;
    let tenant = world.tenant("acme").await;
    let ids = customers(&world, &tenant, 290).await;
    let every = |of: usize| ids.iter().enumerate().filter(move |(at, _)| at % 17 == of).map(|(_, id)| id);
    let numbers = |of: usize| (1000..1290).filter(|number| (number - 1000) % 17 == of).collect::<Vec<_>>();
    let now = Timestamp::now().as_millisecond();
    set(&world, &every(3).collect::<Vec<_>>(), json!({"failing_since": now})).await;
    set(&world, &every(4).take(2).collect::<Vec<_>>(), json!({"streak": format!("{now}.1")})).await;
    let gone = json!({"active": false, "inactive_since": now, "disabled_at": now, "disabled_reason": "gone"});
    set(&world, &every(5).take(3).collect::<Vec<_>>(), gone).await;
    set(&world, &every(6).take(4).collect::<Vec<_>>(), json!({"active": false, "inactive_since": now})).await;
    set(&world, &every(7).take(5).collect::<Vec<_>>(), json!({"gate": format!("late.{now}.{now}")})).await;
    let browser = Browser::new(&world, &tenant.cookie);

    let first = browser.open("/console").await;
    says(
        &first,
        &[
            "290 endpoints, 17 failing, 2 retrying, 3 disabled by us, 4 disabled by your team",
            "All 290 Failing 17 Retrying 2 Slow 5 Disabled 7 Enabled 259",
            "Page 1 of 6",
        ],
    );
    let order = shown(&first);
    assert_eq!((order.len(), &order[..17]), (50, &numbers(3)[..]), "failing endpoints come first");
    assert_eq!(order[17..20], numbers(5)[..3], "and then those that the service disabled");
    let mut all = order;
    let mut page = first;
    for _ in 2..=6 {
        page = browser.open(&link(&page, "Next")).await;
        all.extend(shown(&page));
    }
    assert_eq!(all[286..], numbers(6)[..4], "those that the team disabled come last");
    all.sort_unstable();
    assert_eq!(all, (1000..1290).collect::<Vec<_>>());

    let failing = browser.open(&link(&page, "Failing")).await;
    assert_eq!(shown(&failing), numbers(3));
    assert!(failing.page().contains("aria-current=\"true\">Failing"), "{}", failing.page());
    for (state, expected) in
        [("Retrying", &numbers(4)[..2]), ("Slow", &numbers(7)[..5]), ("All", &[1003, 1020]), ("Enabled", &[])]
    {
        let page = browser.open(&link(&failing, state)).await;
        assert!(shown(&page).starts_with(expected), "{state}: {:?}", shown(&page));
    }
    let mut disabled = shown(&browser.open(&link(&failing, "Disabled")).await);
    disabled.sort_unstable();
    assert_eq!(disabled, [1005, 1006, 1022, 1023, 1039, 1040, 1057]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_finds_part_of_a_url_a_description_or_an_id() {
    let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "290")]).await;
    let tenant = world.tenant("acme").await;
    let ids = customers(&world, &tenant, 120).await;
    let fields = json!({"kind": "pull", "description": "Customer 2000, Größe"});
    world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    set(&world, &[&ids[11], &ids[40]], json!({"failing_since": Timestamp::now().as_millisecond()})).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let end = ids[77].rsplit('-').next().expect("a part").to_uppercase();
    for (sought, expected) in [
        ("HOOKS/1077", vec![1077]),
        ("customer+1077", vec![1077]),
        ("+hooks/1077+", vec![1077]),
        (end.as_str(), vec![1077]),
        (&ids[77], vec![1077]),
        ("gr%C3%B6SSE", vec![]),
        ("GR%C3%96%C3%9FE", vec![2000]),
        ("hooks/101", vec![1011, 1010, 1012, 1013, 1014, 1015, 1016, 1017, 1018, 1019]),
        ("", (1000..1120).chain([2000]).collect()),
    ] {
        let page = browser.open(&format!("/console?q={sought}")).await;
        assert_eq!(shown(&page)[..], shown_first(&expected, &[1011, 1040])[..], "{sought}");
    }
    // The search and the state keep each other, and pages keep both.
    let found = browser.open("/console?q=hooks").await;
    says(
        &found,
        &["121 endpoints, 2 failing", "All 120 Failing 2 Retrying 0 Slow 0 Disabled 0 Enabled 118", "Page 1 of 3"],
    );
    let next = link(&found, "Next");
    assert_eq!(next, "/console?q=hooks&page=2");
    assert_eq!(link(&browser.open(&next).await, "Previous"), "/console?q=hooks");
    let failing = browser.open(&link(&found, "Failing")).await;
    assert_eq!(shown(&failing), [1011, 1040]);
    assert!(failing.page().contains("value=\"hooks\"") && failing.page().contains("name=\"state\" value=\"failing\""));
    assert_eq!(link(&failing, "All"), "/console?q=hooks");
    // A search without a result says what was sought, and offers the way back.
    let none = browser.open("/console?q=%22%3E%3Cb%3E&state=failing").await;
    says(&none, &["All 0 Failing 0", "No failing endpoint matches “ \"><b> ”.", "Show all endpoints"]);
    assert_eq!(link(&none, "Show all failing endpoints"), "/console?state=failing");
    assert_eq!(link(&none, "Show all endpoints"), "/console");
    let none = browser.open("/console?state=retrying").await;
    says(&none, &["No endpoint is retrying.", "Show all endpoints"]);
    assert_eq!(browser.open("/console?state=%3Cb%3E&page=x").await.status, 200);
}

/// The numbers on the first page: those of failing endpoints first, at most fifty.
fn shown_first(expected: &[usize], failing: &[usize]) -> Vec<usize> {
    let (bad, good): (Vec<_>, Vec<_>) = expected.iter().partition(|number| failing.contains(number));
    bad.into_iter().chain(good).copied().take(50).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_of_one_of_many_endpoints_are_found_by_text() {
    let world = World::with(&[("RETRY_SCHEDULE", ""), ("MAX_ENDPOINTS_PER_TENANT", "290")]).await;
    let tenant = world.tenant("acme").await;
    let ids = customers(&world, &tenant, 30).await;
    let same = json!({"url": "http://127.0.0.1:9/hooks/1007", "description": "Another <b>"});
    world.rpc(&tenant.key, "webhooks/create", same).await.ok();
    world.deliver(event(&tenant.id, "job-1")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open("/console/deliveries?status=failed").await;
    assert!(!page.page().contains("<select id=\"endpoint\""), "{}", page.page());
    assert!(page.page().contains("list=\"endpoints\"") && page.page().contains("<datalist id=\"endpoints\">"));
    let suggestions = page.page().split_once("<datalist").expect("suggestions").1.split("</datalist>").next();
    assert_eq!(suggestions.map(|list| list.matches("<option ").count()), Some(31));
    // One match applies, and keeps the other filters.
    for sought in ["CUSTOMER+1012", "hooks/1012", "http%3A%2F%2F127.0.0.1%3A9%2Fhooks%2F1012", &ids[12].to_uppercase()]
    {
        let led = browser.open(&format!("/console/deliveries?status=failed&endpoint={sought}")).await;
        assert_eq!(led.status, 303, "{sought}");
        assert_eq!(led.headers["location"], format!("/console/deliveries?status=failed&endpoint={}", ids[12]));
    }
    let one = browser.open(&format!("/console/deliveries?endpoint={}&status=failed", ids[12])).await;
    says(&one, &["Failed 1", "job-1"]);
    assert_eq!(one.page().matches("data-label=\"Status\"").count(), 1);
    assert!(one.page().contains("value=\"http://127.0.0.1:9/hooks/1012\""), "the box names the endpoint");
    // The address of an endpoint that shares its URL is ambiguous, so the box contains its id.
    let shared = browser.open(&format!("/console/deliveries?endpoint={}", ids[7])).await;
    assert!(shared.page().contains(&format!("value=\"{}\"", ids[7])), "{}", shared.page());
    // Several matches are offered.
    let several = browser.open("/console/deliveries?status=failed&endpoint=hooks%2F1007").await;
    says(&several, &["2 endpoints match “ hooks/1007 ”", "Another <b>"]);
    let chosen = link(&several, "Customer 1007");
    assert_eq!(chosen, format!("/console/deliveries?status=failed&endpoint={}", ids[7]));
    assert!(!text(&several).contains("job-1"), "nothing is listed before the choice: {}", text(&several));
    let many = browser.open("/console/deliveries?endpoint=customer").await;
    says(&many, &["30 endpoints match “ customer ”", "and 10 more"]);
    let none = browser.open("/console/deliveries?endpoint=%3Ci%3E").await;
    assert_eq!(none.status, 400);
    says(&none, &["No endpoint has this in its URL, description or ID"]);
    assert!(none.page().contains("value=\"&lt;i&gt;\""), "{}", none.page());
}
