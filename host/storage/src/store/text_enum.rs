//! Enums whose values are texts in the database and in JSON.

/// The parts that all enums of [`text_enum`] have.
pub trait TextEnum: Copy + 'static {
    const ALL: &'static [Self];

    /// The text as an SQL literal: in quotes.
    fn sql(self) -> &'static str;
}

/// Declares an enum with the text of each variant. The texts stand nowhere else: statements bind a value, or contain
/// its `sql()` where a plan depends on the literal. Reading another text from a column is an error that names it.
///
/// sqlx's derive would declare a type by name, which PostgreSQL looks up with one more statement on each connection.
macro_rules! text_enum {
    ($(#[$attr:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $text)] $variant,)+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The text as an SQL literal: in quotes.
            pub const fn sql(self) -> &'static str {
                match self { $(Self::$variant => concat!("'", $text, "'"),)+ }
            }
        }

        impl $crate::store::text_enum::TextEnum for $name {
            const ALL: &'static [Self] = Self::ALL;

            fn sql(self) -> &'static str {
                self.sql()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().copied().find(|value| value.as_str() == text);
                found.ok_or_else(|| format!(concat!("{:?} is no ", stringify!($name)), text))
            }
        }

        impl<DB: sqlx::Database> sqlx::Type<DB> for $name
        where
            str: sqlx::Type<DB>,
        {
            fn type_info() -> DB::TypeInfo {
                <str as sqlx::Type<DB>>::type_info()
            }

            fn compatible(ty: &DB::TypeInfo) -> bool {
                <str as sqlx::Type<DB>>::compatible(ty)
            }
        }

        impl<'r, DB: sqlx::Database> sqlx::Decode<'r, DB> for $name
        where
            &'r str: sqlx::Decode<'r, DB>,
        {
            fn decode(value: DB::ValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
                Ok(<&str as sqlx::Decode<'r, DB>>::decode(value)?.parse()?)
            }
        }

        impl<'q, DB: sqlx::Database> sqlx::Encode<'q, DB> for $name
        where
            &'static str: sqlx::Encode<'q, DB>,
        {
            fn encode_by_ref(
                &self,
                buf: &mut DB::ArgumentBuffer,
            ) -> Result<sqlx::encode::IsNull, sqlx::error::BoxDynError> {
                self.as_str().encode_by_ref(buf)
            }
        }
    };
}

pub(in crate::store) use text_enum;
