//! JSON text as nccl-tests writes it: six decimals in every double, `/` escaped, no blanks.
//! Not a general writer; docs/dependencies.md says why it is not a Formatter of serde_json.

/// A JSON text under construction; keys come in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
    /// Whether the innermost open object or list already has a member.
    filled: bool,
}

impl Text {
    /// The text since the last call.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    fn comma(&mut self) {
        if self.filled {
            self.text.push(',');
        }
        self.filled = true;
    }

    /// A key; a value must follow.
    pub(super) fn key(&mut self, key: &str) -> &mut Text {
        self.comma();
        self.text += &quoted(key);
        self.text.push(':');
        self.filled = false;
        self
    }

    /// `{` or `[`.
    pub(super) fn open(&mut self, bracket: char) {
        self.comma();
        self.text.push(bracket);
        self.filled = false;
    }

    /// `}` or `]`.
    pub(super) fn close(&mut self, bracket: char) {
        self.text.push(bracket);
        self.filled = true;
    }

    pub(super) fn string(&mut self, value: &str) {
        self.raw(&quoted(value));
    }

    pub(super) fn integer(&mut self, value: impl Into<i128>) {
        self.raw(&value.into().to_string());
    }

    /// A boolean as a string, as nccl-tests writes it.
    pub(super) fn truth(&mut self, value: bool) {
        self.string(if value { "true" } else { "false" });
    }

    /// `%lf`; what is not a number becomes a string, so that the report stays JSON.
    pub(super) fn double(&mut self, value: impl Into<Option<f64>>) {
        let value = super::number::or_nan(value);
        if value.is_finite() {
            self.raw(&format!("{value:.6}"));
        } else {
            self.string(&super::number::fixed(value.abs(), 6));
        }
    }

    pub(super) fn null(&mut self) {
        self.raw("null");
    }

    fn raw(&mut self, value: &str) {
        self.comma();
        self.text += value;
    }
}

fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' | '/' => text.extend(['\\', c]),
            '\n' => text += "\\n",
            '\t' => text += "\\t",
            c if c < ' ' => text += &format!("\\u{:04x}", c as u32),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}
