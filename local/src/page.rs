//! The frame of the pages for developers: sent emails and received webhooks. These pages do not use scripts or load
//! anything.

use common::http::page::HOOK;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:0}\
    main{max-width:60rem;margin:2rem auto;padding:0 1rem;overflow-wrap:break-word}input,select,button{font:inherit}\
    pre{white-space:pre-wrap;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}\
    th,td{text-align:left;padding:.25rem 1rem .25rem 0;vertical-align:top}code{overflow-wrap:anywhere}\
    td:first-child{min-width:12rem}\
    form{display:flex;gap:.25rem}article{border-top:1px solid #888}input,select{min-width:0;max-width:100%;box-sizing:border-box}\
    iframe{width:100%;box-sizing:border-box;border:1px solid #888}iframe:focus-within{outline:2px solid Highlight}\
    @media(max-width:56rem){thead{position:absolute;left:-100rem}table,tbody,tr,td{display:block}\
    tr{padding:.5rem 0;border-top:1px solid #888}td{padding:.125rem 0}}";

/// Builds a page with this title, and `content` below it.
pub(crate) fn page(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                link rel="icon" href={
                    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='none' \
                     stroke='%234a86f7' stroke-width='2' stroke-linecap='round'><path d='" (HOOK) "'/></svg>"
                };
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { h1 { (title) } (content) } }
        }
    }
}
