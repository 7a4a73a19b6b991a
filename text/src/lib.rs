//! Shows untrusted text safely on pages, in emails and on terminals.
//!
//! Users, producers and receivers choose text that other people read: names, descriptions, job ids, payloads,
//! responses. Characters that hide or reorder the surrounding text can make it look different, or like part of the
//! page, so they are never shown unchanged. Pages, emails and terminals use the same list of characters:
//!
//! | kind | characters | Unicode property |
//! |---|---|---|
//! | control | C0 and C1 controls, line and paragraph separators | [`General_Category`][ucd] `Cc`, `Zl` and `Zp` |
//! | direction | marks, embeddings, overrides and isolates | [`Bidi_Control`][ucd] |
//! | invisible | soft hyphen, zero-width characters, fillers, tags | [`Default_Ignorable_Code_Point`][ucd], and the annotation characters U+FFF9 to U+FFFB, which are [not for plain text][annotations] |
//!
//! Everyday text in all scripts stays as it is:
//!
//! - Letters have an inherent direction, so Arabic and Hebrew need no direction characters. Pages isolate each piece of
//!   text with `bdi`.
//! - [`Variation_Selector`][ucd]s stay. They choose between the forms of an emoji or a Han character that they follow.
//! - The joiners U+200C and U+200D stay where they affect the shape of the text, and count as hidden characters
//!   elsewhere. The contexts are those of [identifiers][joiners], slightly wider: after a letter of a cursive script
//!   (Arabic, Persian, Syriac, N'Ko), next to a virama (the scripts of India and its neighbors), and for U+200D between
//!   [emoji][emoji].
//! - Tag characters never stay, because they can spell arbitrary invisible text. The flags of England, Scotland and
//!   Wales, which consist of tags, are therefore shown as a black flag and code points.
//!
//! Email programs turn addresses of websites and mailboxes into links, so a name such as "Claim $500 at example.com"
//! would become a link in an email of the service. [`unlinked`] separates their parts with spaces. Emails do this with
//! all text except their own links, and pages that strangers open from an email do it with names.
//!
//! [ucd]: https://www.unicode.org/reports/tr44/
//! [annotations]: https://www.unicode.org/versions/latest/core-spec/chapter-23/
//! [joiners]: https://www.unicode.org/reports/tr31/#Layout_and_Format_Control_Characters
//! [emoji]: https://www.unicode.org/reports/tr51/#Emoji_ZWJ_Sequences

use std::borrow::Cow;

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{
        BidiControl, CanonicalCombiningClass, DefaultIgnorableCodePoint, EmojiModifier, ExtendedPictographic,
        GeneralCategory, GeneralCategoryGroup, JoiningType, VariationSelector,
    },
};

/// Text from outside the service.
#[derive(Clone, Copy, Debug)]
pub struct Untrusted<'a>(&'a str);

const NON_JOINER: char = '\u{200C}';
const JOINER: char = '\u{200D}';

impl<'a> Untrusted<'a> {
    /// Marks `text` as untrusted.
    pub fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// Returns the text for a page: hidden characters become code points, such as `⟨U+202E⟩`. Line breaks and tabs
    /// stay. The template escapes the HTML.
    pub fn page(self) -> Cow<'a, str> {
        self.written(|hidden, shown| match hidden {
            '\n' | '\t' => shown.push(hidden),
            _ => shown.push_str(&format!("⟨U+{:04X}⟩", u32::from(hidden))),
        })
    }

    /// Returns the text for an email: hidden characters become spaces, and addresses are [`unlinked`]. Line breaks stay,
    /// each as `\n`.
    pub fn mail(self) -> Cow<'a, str> {
        self.mail_with('\n')
    }

    /// Returns the text for one line of an email: hidden characters and line breaks become spaces, and addresses are
    /// [`unlinked`].
    pub fn mail_line(self) -> Cow<'a, str> {
        self.mail_with(' ')
    }

    fn mail_with(self, line_break: char) -> Cow<'a, str> {
        let write = |hidden, shown: &mut String| match hidden {
            '\n' | '\u{2028}' | '\u{2029}' => shown.push(line_break),
            _ => shown.push(' '),
        };
        let visible = match self.0.contains("\r\n") {
            true => Cow::Owned(Untrusted(&self.0.replace("\r\n", "\n")).written(write).into_owned()),
            false => self.written(write),
        };
        match visible {
            Cow::Borrowed(visible) => unlinked(visible),
            Cow::Owned(visible) => Cow::Owned(unlinked(&visible).into_owned()),
        }
    }

    /// Returns the text for one line on a terminal: hidden characters and line breaks become replacement characters
    /// (U+FFFD).
    pub fn terminal(self) -> Cow<'a, str> {
        self.written(|_, shown| shown.push('\u{FFFD}'))
    }

    /// Returns JSON for one line on a terminal. Hidden characters occur only in JSON strings, where they become
    /// escapes, so the value stays the same.
    pub fn terminal_json(self) -> Cow<'a, str> {
        self.written(|hidden, shown| {
            let mut units = [0; 2];
            shown.extend(hidden.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        })
    }

    /// The first hidden character that is not a control character, if there is one.
    pub fn first_invisible(self) -> Option<char> {
        let mut first = None;
        self.written(|hidden, _| {
            if !is_control(hidden) {
                first.get_or_insert(hidden);
            }
        });
        first
    }

    /// Returns the text, with each hidden character written by `write`.
    fn written(self, mut write: impl FnMut(char, &mut String)) -> Cow<'a, str> {
        if !self.0.contains(is_hidden) {
            return Cow::Borrowed(self.0);
        }
        let mut shown = String::with_capacity(self.0.len());
        let (mut characters, mut before) = (self.0.chars().peekable(), None);
        while let Some(character) = characters.next() {
            let joins = before.is_some_and(|before| joins(before, character, characters.peek().copied()));
            if is_hidden(character) && !joins {
                write(character, &mut shown);
            } else {
                shown.push(character);
            }
            if is_hidden(character) {
                before = None;
            } else if !is_mark(character) || is_virama(character) {
                before = Some(character);
            }
        }
        Cow::Owned(shown)
    }
}

/// Returns text in which email programs find no address to turn into a link: a space follows the colon of a scheme, the
/// `@` of a mailbox, and each dot before a label that may be a domain's last one. Numbers, times, versions, file
/// positions and the ids of deliveries stay as they are.
pub fn unlinked(text: &str) -> Cow<'_, str> {
    let (mut broken, mut copied, mut before) = (String::new(), 0, None);
    let mut characters = text.char_indices().peekable();
    while let Some((_, character)) = characters.next() {
        if let Some(&(next, after)) = characters.peek()
            && links(before, character, after)
            && !(before.is_some_and(|before| before.is_ascii_digit()) && begins_with_a_hash(text.get(next..)))
        {
            broken.extend([text.get(copied..next).unwrap_or_default(), " "]);
            copied = next;
        }
        before = Some(character);
    }
    match copied {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(broken + text.get(copied..).unwrap_or_default()),
    }
}

/// Whether `character` may connect two parts of an address.
fn links(before: Option<char>, character: char, after: char) -> bool {
    let is_after_label = before.is_some_and(is_of_a_label);
    match character {
        // Domains may also be typed with the full stops of other scripts (UTS #46).
        '.' | '\u{3002}' | '\u{FF0E}' | '\u{FF61}' => is_after_label && is_of_a_label(after) && !after.is_numeric(),
        '@' | '\u{FF20}' => is_after_label && is_of_a_label(after),
        ':' | '\u{FF1A}' => is_after_label && (after.is_alphabetic() || "/\\+?".contains(after)),
        // The name of a Windows share.
        '\\' => after == '\\' && before.is_none_or(|before| before.is_whitespace() || "(<".contains(before)),
        _ => false,
    }
}

/// Whether text begins with the last part of a delivery's id: 32 hexadecimal digits, which are not a top-level domain.
fn begins_with_a_hash(text: Option<&str>) -> bool {
    let Some((hash, rest)) = text.and_then(|text| text.split_at_checked(32)) else { return false };
    hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        && hash.contains(|c: char| c.is_ascii_digit())
        && !rest.starts_with(is_of_a_label)
}

/// Whether `c` may occur in a domain's label, which may contain any letters and emoji.
fn is_of_a_label(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || (!c.is_ascii() && !c.is_whitespace())
}

/// Returns JSON with its characters instead of their escapes (`\u00fc`), as far as they are visible text. JSON stays
/// valid: quotes, backslashes, control characters and unpaired surrogates stay escaped.
pub fn readable_json(json: &str) -> Cow<'_, str> {
    if !json.contains("\\u") {
        return Cow::Borrowed(json);
    }
    let (mut readable, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(start) = rest.find('\\') {
        let (before, escape) = rest.split_at(start);
        readable.push_str(before);
        let (character, length) = unescaped(escape).unwrap_or((None, 2));
        let (written, behind) = escape.split_at(escape.floor_char_boundary(length));
        match character.filter(|character| !matches!(character, '"' | '\\') && !is_control(*character)) {
            Some(character) => readable.push(character),
            None => readable.push_str(written),
        }
        rest = behind;
    }
    readable.push_str(rest);
    Cow::Owned(readable)
}

/// Reads a JSON escape of the form `\uXXXX`, or a pair of them that forms one character. Returns the character, unless it
/// is an unpaired surrogate, and the number of bytes read. Returns `None` for other escapes.
fn unescaped(escape: &str) -> Option<(Option<char>, usize)> {
    const LENGTH: usize = 6;
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
    };
    let first = unit(escape)?;
    let second = escape.get(LENGTH..).and_then(unit);
    let decode = |units: &[u16]| char::decode_utf16(units.iter().copied()).next().and_then(Result::ok);
    Some(match (decode(&[first]), second) {
        (Some(character), _) => (Some(character), LENGTH),
        (None, Some(second)) if decode(&[first, second]).is_some() => (decode(&[first, second]), LENGTH * 2),
        (None, _) => (None, LENGTH),
    })
}

/// Whether `c` is a control character or a line break.
pub fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Whether `c` changes the direction of the surrounding text.
pub fn is_direction(c: char) -> bool {
    CodePointSetData::new::<BidiControl>().contains(c)
}

/// Whether `c` is visible on its own. Joiners, which many emoji contain, are not.
pub fn is_visible(c: char) -> bool {
    // Characters in symbol categories that are drawn blank: the blank Braille pattern, the null notehead, blank
    // hieroglyphs and an embedded object.
    const BLANK: [char; 5] = ['\u{2800}', '\u{1d159}', '\u{13441}', '\u{13442}', '\u{fffc}'];
    const DRAWN: GeneralCategoryGroup = GeneralCategoryGroup::Letter
        .union(GeneralCategoryGroup::Number)
        .union(GeneralCategoryGroup::Punctuation)
        .union(GeneralCategoryGroup::Symbol);
    DRAWN.contains(category(c)) && !is_ignorable(c) && !BLANK.contains(&c)
}

/// Whether `c` is on the list above. Joiners are on the list, although some contexts allow them.
fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    // Characters that change the direction are ignorable, too.
    let is_ignorable = is_ignorable(c) && !CodePointSetData::new::<VariationSelector>().contains(c);
    is_control(c) || is_ignorable || matches!(c, '\u{FFF9}'..='\u{FFFB}')
}

/// Whether `joiner` is a joiner and affects the shape of the text between `before`, the last character that is not a
/// combining mark, and `after`.
fn joins(before: char, joiner: char, after: Option<char>) -> bool {
    let is_virama_beside = || is_virama(before) || after.is_some_and(is_virama);
    match joiner {
        NON_JOINER => is_cursive(before) || is_virama_beside(),
        JOINER => is_cursive(before) || is_virama_beside() || (is_emoji(before) && after.is_some_and(is_emoji)),
        _ => false,
    }
}

/// Whether `c` is a letter that joins its neighbors.
fn is_cursive(c: char) -> bool {
    let joining = CodePointMapData::<JoiningType>::new().get(c);
    [JoiningType::DualJoining, JoiningType::LeftJoining, JoiningType::RightJoining].contains(&joining)
}

/// Whether `c` joins the consonants around it.
fn is_virama(c: char) -> bool {
    CodePointMapData::<CanonicalCombiningClass>::new().get(c) == CanonicalCombiningClass::Virama
}

fn is_emoji(c: char) -> bool {
    CodePointSetData::new::<ExtendedPictographic>().contains(c) || CodePointSetData::new::<EmojiModifier>().contains(c)
}

/// Whether `c` is drawn with the character before it.
fn is_mark(c: char) -> bool {
    matches!(category(c), GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark)
}

fn is_ignorable(c: char) -> bool {
    CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An explicit list of characters that must never be shown unchanged. The properties above have to include them.
    const HIDDEN: [(char, char); 14] = [
        ('\0', '\u{1F}'),
        ('\u{7F}', '\u{9F}'),
        ('\u{AD}', '\u{AD}'),
        ('\u{34F}', '\u{34F}'),
        ('\u{61C}', '\u{61C}'),
        ('\u{115F}', '\u{1160}'),
        ('\u{180E}', '\u{180E}'),
        ('\u{200B}', '\u{200F}'),
        ('\u{2028}', '\u{202E}'),
        ('\u{2060}', '\u{206F}'),
        ('\u{3164}', '\u{3164}'),
        ('\u{FEFF}', '\u{FEFF}'),
        ('\u{FFF9}', '\u{FFFB}'),
        ('\u{E0000}', '\u{E007F}'),
    ];

    /// Everyday text that uses marks, joiners, selectors or another direction.
    const EVERYDAY: [&str; 22] = [
        "job-7 «é» naïve Straße ﬁ",
        "e\u{301}a\u{308}o\u{304}\u{301}",
        "שָׁלוֹם עולם 123",
        "مرحبا بالعالم",
        "می\u{200C}خواهم",
        "۱۴۰۳ ه\u{200D}",
        "ܫܠܡܐ",
        "हिन्दी क्\u{200D}ष क्\u{200C}ष र्\u{200D}य",
        "র\u{200D}্যাব",
        "ශ්\u{200D}රී ලංකා",
        "മലയാളം ന്\u{200D}",
        "ខ្មែរ မြန်မာ ไทย",
        "한글 日本語 漢字 葛\u{E0100}城",
        "ᠮᠣᠩᠭᠣᠯ\u{180B}",
        "👩\u{200D}🚀 👩🏽\u{200D}🚀",
        "👨\u{200D}👩\u{200D}👧\u{200D}👦",
        "🏳\u{FE0F}\u{200D}🌈",
        "👁\u{FE0F}\u{200D}🗨\u{FE0F}",
        "👨\u{200D}❤\u{FE0F}\u{200D}💋\u{200D}👨",
        "❤\u{FE0F} ☎\u{FE0E} 1\u{FE0F}\u{20E3} 🇪🇺",
        "🙂\u{200D}↔\u{FE0F}",
        "a\u{A0}b\u{3000}c\u{2009}d",
    ];

    fn all_media(text: &str) -> [String; 4] {
        let text = Untrusted::new(text);
        [text.page(), text.mail(), text.mail_line(), text.terminal()].map(Cow::into_owned)
    }

    #[test]
    fn no_medium_shows_a_hidden_character() {
        for (first, last) in HIDDEN {
            for hidden in first..=last {
                let around = format!("a{hidden}b");
                let [page, mail, line, terminal] = all_media(&around);
                match hidden {
                    '\n' => assert_eq!((&*page, &*mail), ("a\nb", "a\nb")),
                    '\t' => assert_eq!((&*page, &*mail), ("a\tb", "a b")),
                    '\u{2028}' | '\u{2029}' => assert_eq!(mail, "a\nb"),
                    _ => {
                        assert_eq!(page, format!("a⟨U+{:04X}⟩b", u32::from(hidden)));
                        assert_eq!(mail, "a b", "{hidden:?}");
                    }
                }
                assert_eq!((&*line, &*terminal), ("a b", "a\u{FFFD}b"), "{hidden:?}");
            }
        }
    }

    #[test]
    fn everyday_text_of_many_scripts_stays() {
        for text in EVERYDAY {
            assert_eq!(all_media(text), [text; 4], "{text:?}");
            assert_eq!(Untrusted::new(text).terminal_json(), text);
        }
    }

    #[test]
    fn a_joiner_out_of_context_is_hidden() {
        for (text, shown) in [
            ("ad\u{200D}min", "ad⟨U+200D⟩min"),
            ("e\u{301}\u{200D}", "e\u{301}⟨U+200D⟩"),
            ("\u{200C}می", "⟨U+200C⟩می"),
            ("می\u{200C}\u{200C}خواهم", "می\u{200C}⟨U+200C⟩خواهم"),
            ("👩\u{200D}", "👩⟨U+200D⟩"),
            ("👩\u{200C}🚀", "👩⟨U+200C⟩🚀"),
            ("日\u{200D}本", "日⟨U+200D⟩本"),
        ] {
            assert_eq!(Untrusted::new(text).page(), shown);
        }
    }

    #[test]
    fn an_email_keeps_line_breaks_and_a_line_of_it_does_not() {
        let text = Untrusted::new("a\r\nb\rc\u{2028}d\n\ne\r");
        assert_eq!(text.mail(), "a\nb c\nd\n\ne ");
        assert_eq!(text.mail_line(), "a b c d  e ");
        assert_eq!(Untrusted::new(&format!("a{}\n", "\r".repeat(3))).mail(), "a  \n");
    }

    #[test]
    fn json_for_a_terminal_is_escaped_where_it_would_be_hidden() {
        let json = Untrusted::new("{\"a\":\"\u{9b}31m \u{202e}\u{e0041} é 日\"}");
        assert_eq!(json.terminal_json(), "{\"a\":\"\\u009b31m \\u202e\\udb40\\udc41 é 日\"}");
    }

    /// Everything that a program might turn into a link.
    fn links_in(text: &str) -> Vec<String> {
        let mut finder = linkify::LinkFinder::new();
        finder.url_must_have_scheme(false);
        finder.links(text).map(|link| link.as_str().to_owned()).collect()
    }

    #[test]
    fn the_id_of_a_delivery_stays_whole_in_an_email() {
        let id = "01a2265b-beab-7318-bed5-57c3eadbf25b.0.1795939876590.d20d28c272eabe30064e8a134c559298";
        assert_eq!(unlinked(id), id);
        for (text, shown) in [
            ("1.d20d28c272eabe30064e8a134c55929", "1. d20d28c272eabe30064e8a134c55929"),
            ("a.d20d28c272eabe30064e8a134c559298", "a. d20d28c272eabe30064e8a134c559298"),
            ("1.d20d28c272eabe30064e8a134c559298.example", "1.d20d28c272eabe30064e8a134c559298. example"),
            ("1.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "1. aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            ("1.d20d28c272eabe30064e8a134c559298-x", "1. d20d28c272eabe30064e8a134c559298-x"),
        ] {
            assert_eq!(unlinked(text), shown);
        }
    }

    #[test]
    fn an_address_is_broken_up_in_an_email() {
        for (text, shown) in [
            ("Claim $500 at https://evil.example/x", "Claim $500 at https: //evil. example/x"),
            ("Booking.com", "Booking. com"),
            ("www.evil.example:8080/?a=b.c", "www. evil. example:8080/?a=b. c"),
            ("jo.doe+x@mail.example", "jo. doe+x@ mail. example"),
            ("HTTPS://EVIL.EXAMPLE", "HTTPS: //EVIL. EXAMPLE"),
            ("http://203.0.113.7/x", "http: //203.0.113.7/x"),
            ("http:\\\\evil", "http: \\\\evil"),
            ("mailto:jo@mail.example", "mailto: jo@ mail. example"),
            ("javascript:alert(1)", "javascript: alert(1)"),
            ("tel:+15550100", "tel: +15550100"),
            ("münchen.example", "münchen. example"),
            ("例え。テスト", "例え。 テスト"),
            ("i❤.example", "i❤. example"),
            ("evil．example", "evil． example"),
            ("evil.xn--p1ai", "evil. xn--p1ai"),
            ("\\\\evil\\share", "\\ \\evil\\share"),
            ("evil.exam\u{200B}ple", "evil. exam ple"),
            ("evil\u{200B}.example", "evil .example"),
        ] {
            assert_eq!((&*Untrusted::new(text).mail(), &*Untrusted::new(text).mail_line()), (shown, shown));
            assert_eq!(links_in(shown), [""; 0], "{shown}");
        }
        for text in
            ["Doe & Co.", "a.\nb", "0.1.0", "3.14", "at main (a:10:3)", "std::vec", "12:30", "@scope/x", "1/2", "…"]
        {
            assert_eq!(unlinked(text), text);
        }
    }

    #[test]
    fn json_is_readable_without_escapes_of_visible_text() {
        for (json, shown) in [
            (r#"{"a":"\u00dcberlauf"}"#, r#"{"a":"Überlauf"}"#),
            (r#""\ud83d\ude00\u00FC""#, r#""😀ü""#),
            (r#""\\u00dc \n\u0022\u005c\u0007\u2028""#, r#""\\u00dc \n\u0022\u005c\u0007\u2028""#),
            (r#""\ud83d \ude00\ud83d\u00fc""#, r#""\ud83d \ude00\ud83dü""#),
            (r#""\u00"#, r#""\u00"#),
        ] {
            assert_eq!(readable_json(json), shown);
        }
    }

    proptest! {
        #[test]
        fn no_text_of_an_email_is_a_link(
            text in r"(https?:|mailto:|[/@:.。．\\ \n]|www|evil|[a-zA-Zéя❤0-9_-]{1,4}|com|example|\u{200B}|\PC){0,14}",
        ) {
            for shown in [Untrusted::new(&text).mail(), Untrusted::new(&text).mail_line()] {
                prop_assert_eq!(links_in(&shown), Vec::<String>::new(), "{}", shown);
            }
        }

        #[test]
        fn readable_json_has_the_same_value(text in any::<String>(), plain in "[a-z\\\\\"]{0,8}") {
            let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            let plain = plain.replace('\\', "\\\\").replace('"', "\\\"");
            let json = format!("\"{plain}{escaped}\"");
            let values = [&json, &*readable_json(&json)].map(|json| serde_json::from_str::<String>(json).expect("JSON"));
            prop_assert_eq!(&values[0], &values[1]);
        }

        #[test]
        fn nothing_else_changes(text in any::<String>()) {
            let without: String = text.chars().filter(|c| !is_hidden(*c)).collect();
            let unlinked = unlinked(&without);
            prop_assert_eq!(all_media(&without), [&without, &*unlinked, &*unlinked, &without]);
        }

        #[test]
        fn shown_text_stays_as_it_is(text in "[a\u{301}\u{200B}-\u{200F}می\u{94D}क👩🚀\r\n\u{2028}\u{FE0F}]{0,12}") {
            for shown in [Untrusted::new(&text).mail(), Untrusted::new(&text).mail_line()] {
                prop_assert_eq!(Untrusted::new(&shown).mail(), &*shown);
            }
            for shown in [Untrusted::new(&text).terminal(), Untrusted::new(&text).mail_line()] {
                prop_assert_eq!(Untrusted::new(&shown).terminal(), &*shown);
            }
        }
    }
}
