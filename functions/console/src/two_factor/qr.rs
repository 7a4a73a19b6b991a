//! QR codes as inline SVG, which the pages' content security policy permits.

use maud::{Markup, html};
use qrcodegen::{QrCode, QrCodeEcc};

/// The width of the white border that scanners need, in modules (ISO/IEC 18004).
const BORDER: i32 = 4;

/// The QR code for `text`, black on white even in dark mode. Empty if the input is too long, which an `otpauth` link
/// never is.
pub(super) fn svg(text: &str) -> Markup {
    let Ok(code) = QrCode::encode_text(text, QrCodeEcc::Medium) else { return html! {} };
    let size = code.size() + 2 * BORDER;
    html! {
        svg viewBox={ "0 0 " (size) " " (size) } width="240" height="240" role="img" aria-label="QR code of the secret below" {
            rect width=(size) height=(size) fill="#fff" {}
            path fill="#000" d=(path(&code)) shape-rendering="crispEdges" {}
        }
    }
}

/// One rectangle for each run of dark modules in a row.
fn path(code: &QrCode) -> String {
    let mut path = String::new();
    for y in 0..code.size() {
        let mut x = 0;
        while x < code.size() {
            let run = (x..code.size()).take_while(|x| code.get_module(*x, y)).count();
            let run = i32::try_from(run).unwrap_or_default();
            if run > 0 {
                path.push_str(&format!("M{} {}h{run}v1h-{run}z", x + BORDER, y + BORDER));
            }
            x += run.max(1);
        }
    }
    path
}
