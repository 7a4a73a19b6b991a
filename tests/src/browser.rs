//! A browser without scripts, which opens pages, fills in forms, and reads visible text.

use crate::world::{Answer, BROWSER, World, forged, hidden_fields};

/// A browser with or without a session.
pub struct Browser<'a> {
    world: &'a World,
    cookie: String,
    is_forging: bool,
}

impl<'a> Browser<'a> {
    /// A browser that sends this `cookie` header, or no `cookie` header if the value is empty.
    #[must_use]
    pub fn new(world: &'a World, cookie: &str) -> Self {
        Self { world, cookie: cookie.to_owned(), is_forging: false }
    }

    /// Hides from the service which account the pages of its forms showed.
    #[must_use]
    pub fn forging(self) -> Self {
        Self { is_forging: true, ..self }
    }

    /// Opens a path of the API.
    pub async fn open(&self, path: &str) -> Answer {
        self.send(self.world.http.get(self.world.url(path))).await
    }

    /// Presses a button on a page that was opened at `path`, and follows redirects.
    pub async fn press(&self, path: &str, page: &Answer, button: &str, typed: &[(&str, &str)]) -> Answer {
        let answer = self.submit(path, page, button, typed).await;
        match answer.headers.get("location") {
            Some(to) => {
                assert_eq!(answer.status, 303, "{answer:?}");
                self.open(to.to_str().expect("a path")).await
            }
            None => answer,
        }
    }

    /// Presses a button without following redirects.
    pub async fn submit(&self, path: &str, page: &Answer, button: &str, typed: &[(&str, &str)]) -> Answer {
        let (action, mut fields) = form(page.page(), button);
        let to = if action == "?" { path.split('?').next().unwrap_or(path) } else { &action };
        if self.is_forging {
            fields = forged(fields);
        }
        fields.extend(typed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let origin = self.world.stack.api();
        self.send(self.world.http.post(self.world.url(to)).header("origin", origin).form(&fields)).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let request = request.header("accept", BROWSER);
        let request = if self.cookie.is_empty() { request } else { request.header("cookie", &self.cookie) };
        self.world.send(request).await
    }
}

/// The target of the only form with this button, and the hidden fields of the form.
fn form(page: &str, button: &str) -> (String, Vec<(String, String)>) {
    let forms = page.split("<form ").skip(1).map(|form| form.split("</form>").next().unwrap_or_default());
    let forms: Vec<_> = forms.filter(|form| form.contains(&format!(">{button}</button>"))).collect();
    assert_eq!(forms.len(), 1, "{button} in {}", readable(page));
    let (_, action) = forms[0].split_once("action=\"").expect("an action");
    (action.split('"').next().unwrap_or_default().to_owned(), hidden_fields(forms[0]))
}

/// The visible text of a page, on one line.
#[must_use]
pub fn readable(page: &str) -> String {
    let mut text = String::new();
    let body = page.split_once("<body>").map_or(page, |(_, body)| body);
    for piece in body.split('<') {
        let (tag, shown) = piece.split_once('>').unwrap_or(("", piece));
        // The labels of a chart's bars appear on hover.
        text.push_str(if tag == "title" { "" } else { shown });
        text.push(' ');
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
