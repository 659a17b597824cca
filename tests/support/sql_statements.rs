//! SQL statements made of bytes: what a script could try to get at tables that are not its own. Used by a property test
//! (`store/script_sql/generated.rs`) and by the fuzz target `script_sql`. The same bytes give the same statement.

/// What is in the table `canary`, and never comes out.
pub const SECRET: &str = "canary-b7d1f0";

/// Names that mean something on one of the databases, or should mean nothing.
const RELATIONS: &[&str] = &[
    "records",
    "record_refs",
    "labels",
    "lexicons",
    "script_own",
    "script_own",
    "canary",
    "\"canary\"",
    "public.canary",
    "main.canary",
    "belvedere.canary",
    "temp.records",
    "script_views.records",
    "sqlite_schema",
    "pg_class",
    "a",
    "b",
    "c",
    "pg_catalog.pg_proc",
    "script_gone",
    "canary AS records",
    "information_schema.columns",
];
const COLUMNS: &[&str] = &[
    "uri",
    "did",
    "collection",
    "rkey",
    "record",
    "indexed_us",
    "x",
    "n",
    "secret",
    "value",
    "key",
    "a",
    "b",
    "c",
    "rowid",
    "ctid",
    "tableoid",
    "ts_stat",
    "query_to_xml",
    "row_to_json",
    "name",
    "text",
    "pg_typeof",
    "count",
    "excluded",
    "script_own",
    "canary",
    "records",
    "column1",
    "t1",
    "t2",
    "cte_1",
    "\"x\"",
    "*",
];
const FUNCTIONS: &[&str] = &[
    "lower",
    "count",
    "max",
    "string_agg",
    "group_concat",
    "coalesce",
    "concat",
    "replace",
    "trim",
    "substr",
    "length",
    "json_extract",
    "json_group_array",
    "jsonb_agg",
    "jsonb_path_query_first",
    "array_agg",
    "to_jsonb",
    "regexp_replace",
    "row_number",
    "lag",
    "ts_stat",
    "query_to_xml",
    "table_to_xml",
    "database_to_xml",
    "schema_to_xml",
    "pg_read_file",
    "set_config",
    "current_setting",
    "load_extension",
    "readfile",
    "edit",
    "fts3_tokenizer",
    "printf",
    "zeroblob",
    "lo_import",
    "dblink",
    "pg_catalog.lower",
    "nextval",
    "currval",
    "to_regclass",
    "json_populate_record",
    "xpath",
];
const TABLE_FUNCTIONS: &[&str] = &[
    "json_each",
    "json_tree",
    "jsonb_array_elements_text",
    "jsonb_array_elements",
    "jsonb_each_text",
    "unnest",
    "jsonb_path_query",
    "jsonb_object_keys",
    "ts_stat",
    "query_to_xml",
    "pragma_table_info",
    "pragma_function_list",
    "dbstat",
    "generate_series",
    "pg_ls_dir",
    "json_to_recordset",
    "sqlite_dbpage",
    "fts5vocab",
];
const TEXTS: &[&str] = &[
    "",
    "a",
    "x",
    "SELECT secret FROM canary",
    "SELECT secret FROM public.canary",
    "public.canary",
    "canary",
    "$.a",
    "[\"SELECT secret FROM public.canary\"]",
    "{\"a\": [1, \"canary\"]}",
    "$.** ? (@ like_regex \"canary\")",
    "%",
    "it''s",
    "{canary}",
    "\\''; SELECT secret FROM canary; --",
];
const TYPES: &[&str] = &[
    "text",
    "integer",
    "jsonb",
    "json",
    "numeric",
    "text[]",
    "boolean",
    "date",
    "regclass",
    "oid",
    "name",
    "canary",
    "records",
    "xml",
    "jsonpath",
    "blob",
    "regproc",
    "public.canary",
    "record",
    "interval",
];
const OPERATORS: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "||",
    "->",
    "->>",
    "#>",
    "@>",
    "<@",
    "?",
    "&&",
    "=",
    "<>",
    "<",
    "AND",
    "OR",
    "~",
    "~*",
    "IS DISTINCT FROM",
    "LIKE",
    "ILIKE",
    "GLOB",
    "REGEXP",
    "MATCH",
    "@@",
    "OPERATOR(pg_catalog.||)",
    "IS",
    "COLLATE",
];
const JOINS: &[&str] = &[
    ", ",
    " JOIN ",
    " LEFT JOIN ",
    " CROSS JOIN ",
    " NATURAL JOIN ",
    ", LATERAL ",
    " FULL JOIN ",
    " JOIN LATERAL ",
];
/// Levels of subqueries and expressions.
const DEPTH: u32 = 5;

/// Choices, taken from bytes. When they are used up it always takes the first.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    fn below(&mut self, end: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % end
    }

    fn one_of(&mut self, all: &[&'static str]) -> &'static str {
        all[self.below(all.len())]
    }

    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    fn list(&mut self, most: usize, mut item: impl FnMut(&mut Self) -> String) -> String {
        let count = 1 + self.below(most);
        (0..count).map(|_| item(self)).collect::<Vec<_>>().join(", ")
    }

    /// One statement.
    pub fn statement(&mut self) -> String {
        match self.below(12) {
            0..=7 => self.query(DEPTH),
            8 => format!(
                "INSERT INTO {} (x) {} {}",
                self.one_of(&["script_own", "script_own", "canary", "records"]),
                self.query(2),
                self.one_of(&[
                    "",
                    "ON CONFLICT (x) DO UPDATE SET x = excluded.x",
                    "ON CONFLICT DO NOTHING",
                    "RETURNING *"
                ]),
            ),
            9 => format!("INSERT INTO script_own VALUES ({}) RETURNING {}", self.expr(3), self.projection(2)),
            10 => format!(
                "UPDATE script_own {} SET x = {} FROM {} WHERE {} RETURNING {}",
                self.one_of(&["", "AS a", "AS canary"]),
                self.expr(3),
                self.from(2),
                self.expr(2),
                self.projection(2),
            ),
            _ => format!("DELETE FROM script_own WHERE {} RETURNING {}", self.expr(3), self.projection(2)),
        }
    }

    fn query(&mut self, depth: u32) -> String {
        let mut sql = String::new();
        if depth > 1 && self.once_in(5) {
            let recursive = self.one_of(&["", "RECURSIVE "]);
            let name = self.one_of(&["a", "b", "canary", "records", "script_own", "c"]);
            let columns = self.one_of(&["", " (x)", " (secret)", " (x, n)"]);
            sql = format!("WITH {recursive}{name}{columns} AS ({}) ", self.query(depth - 1));
        }
        if depth > 1 && self.once_in(8) {
            let (left, right) = (self.select(depth - 1), self.select(depth - 1));
            let word = self.one_of(&["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]);
            sql += &format!("{left} {word} {right}");
        } else if self.once_in(12) {
            sql += &format!("VALUES ({})", self.list(2, |choices| choices.expr(depth.min(2))));
        } else {
            sql += &self.select(depth);
        }
        if self.once_in(5) {
            sql += &format!(" ORDER BY {}", self.expr(depth.min(2)));
        }
        if self.once_in(4) {
            sql += &format!(" LIMIT {}", self.one_of(&["5", "1", "$1", "(SELECT count(*) FROM canary)"]));
        }
        sql
    }

    fn select(&mut self, depth: u32) -> String {
        let distinct = self.one_of(&["", "", "", "DISTINCT ", "DISTINCT ON (x) "]);
        let mut sql = format!("SELECT {distinct}{}", self.projection(depth));
        if !self.once_in(6) {
            sql += &format!(" FROM {}", self.from(depth));
        }
        if self.once_in(3) {
            sql += &format!(" WHERE {}", self.expr(depth));
        }
        if self.once_in(6) {
            sql += &format!(" GROUP BY {}", self.expr(depth.min(2)));
            if self.once_in(3) {
                sql += &format!(" HAVING {}", self.expr(depth.min(2)));
            }
        }
        sql
    }

    fn projection(&mut self, depth: u32) -> String {
        self.list(3, |choices| {
            let mut item = match choices.below(6) {
                0 => return "*".to_owned(),
                1 => return format!("{}.*", choices.alias()),
                _ => choices.expr(depth),
            };
            if choices.once_in(3) {
                item += &format!(" AS {}", choices.one_of(&["x", "secret", "n", "a"]));
            }
            item
        })
    }

    fn alias(&mut self) -> &'static str {
        self.one_of(&["a", "b", "c", "records", "script_own", "canary", "t1", "t2", "excluded"])
    }

    fn from(&mut self, depth: u32) -> String {
        let mut sql = self.table(depth);
        while self.once_in(3) {
            let join = self.one_of(JOINS);
            sql += join;
            sql += &self.table(depth.saturating_sub(1));
            if join.contains("JOIN") && !join.contains("CROSS") && !join.contains("NATURAL") {
                sql += &if self.once_in(4) {
                    format!(" USING ({})", self.one_of(&["uri", "x", "secret"]))
                } else {
                    format!(" ON {}", self.expr(1))
                };
            }
        }
        sql
    }

    fn table(&mut self, depth: u32) -> String {
        let mut sql = match self.below(8) {
            0..=3 => self.one_of(RELATIONS).to_owned(),
            4 | 5 => format!("{}({})", self.one_of(TABLE_FUNCTIONS), self.list(2, |choices| choices.expr(1))),
            _ if depth > 1 => format!("({})", self.query(depth - 1)),
            _ => "script_own".to_owned(),
        };
        if !self.once_in(3) {
            sql += &format!(" AS {}{}", self.alias(), self.one_of(&["", "", "", "(x)", "(x, n)"]));
        }
        sql
    }

    fn column(&mut self) -> String {
        let column = self.one_of(COLUMNS);
        match self.below(8) {
            0..=2 => column.to_owned(),
            3 => format!("({}).{column}", self.alias()),
            4 => format!("{}.{}", self.alias(), self.one_of(FUNCTIONS)),
            5 => format!("{}.{}.{column}", self.one_of(&["public", "main", "script_views"]), self.alias()),
            _ => format!("{}.{column}", self.alias()),
        }
    }

    fn expr(&mut self, depth: u32) -> String {
        let kind = if depth == 0 { self.below(3) } else { self.below(16) };
        let deeper = depth.saturating_sub(1);
        match kind {
            0 => format!("'{}'", self.one_of(TEXTS)),
            1 => self.one_of(&["1", "0", "NULL", "TRUE", "2.5", "$1", "current_date"]).to_owned(),
            2..=4 => self.column(),
            5..=7 => {
                let (name, arguments) =
                    (self.one_of(FUNCTIONS), self.list(3, |choices| choices.expr(deeper)));
                let extra =
                    self.one_of(&["", "", "", " OVER ()", " OVER (ORDER BY x)", " FILTER (WHERE TRUE)"]);
                format!("{name}({arguments}){extra}")
            }
            8 | 9 => {
                let (left, right) = (self.expr(deeper), self.expr(deeper));
                format!("({left} {} {right})", self.one_of(OPERATORS))
            }
            10 => format!("CAST({} AS {})", self.expr(deeper), self.one_of(TYPES)),
            11 => format!("{}::{}", self.expr(deeper), self.one_of(TYPES)),
            12 => format!("({})", self.query(deeper.max(1))),
            13 => format!("EXISTS ({})", self.query(deeper.max(1))),
            14 => {
                let (when, then, other) = (self.expr(deeper), self.expr(deeper), self.expr(deeper));
                format!("CASE WHEN {when} THEN {then} ELSE {other} END")
            }
            _ => {
                let inner = self.expr(deeper);
                match self.below(5) {
                    0 => format!("({inner}).{}", self.one_of(FUNCTIONS)),
                    1 => format!("{inner} IN ({})", self.query(deeper.max(1))),
                    2 => format!("{} '{}'", self.one_of(TYPES), self.one_of(TEXTS)),
                    3 => format!("ARRAY[{inner}]"),
                    _ => format!("({inner}, {inner})"),
                }
            }
        }
    }
}
