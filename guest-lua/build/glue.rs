//! Generates the C glue between Lua and the contract: for each function of an imported interface, a Lua function that
//! converts its arguments to the contract's types, calls the host, and converts the result back. So a new capability
//! needs no hand-written C.
//!
//! The mapping of types: text and `list<u8>` are Lua strings, `json` is any value, `rows` an array of records, records
//! are tables with the fields' names in snake case, options are nil or the value, enums are their names, `result`
//! raises its error as a fault object. A type that is not listed stops the build: add it here.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use wit_bindgen_core::wit_parser::{
    Function, Resolve, Type, TypeDefKind, TypeId, TypeOwner, WorldId, WorldItem, WorldKey,
};

use crate::gathered;

/// Interfaces that are not exposed to Lua: `types` has no functions, the others are for the guest itself.
const HIDDEN: [&str; 4] = ["meter", "parallel", "profile", "types"];
/// Prefix of the C names of the package `belvedere:script`.
const PREFIX: &str = "belvedere_script";

/// The C source: a function for each import, and `push_host`, which pushes the table of interfaces.
pub(crate) fn generate(resolve: &Resolve, world: WorldId) -> Result<String> {
    let mut interfaces = BTreeMap::new();
    for (key, item) in &resolve.worlds[world].imports {
        if let (WorldKey::Interface(id), WorldItem::Interface { .. }) = (key, item) {
            let name = resolve.interfaces[*id].name.clone().context("an imported interface has a name")?;
            if !HIDDEN.contains(&name.as_str()) {
                interfaces.insert(snake(&name), *id);
            }
        }
    }
    gathered::check(resolve, &interfaces)?;
    let mut code = "/* Generated from wit/ by build/glue.rs. */\n".to_owned();
    let mut open = "static void push_host(lua_State *L) {\n  lua_newtable(L);\n".to_owned();
    for (interface, id) in interfaces {
        writeln!(open, "  lua_newtable(L);")?;
        for function in resolve.interfaces[id].functions.values() {
            let name = snake(&function.name);
            code += &function_glue(resolve, &interface, function)
                .with_context(|| format!("{interface}.{name} in wit/"))?;
            writeln!(open, "  lua_pushcfunction(L, host_{interface}_{name});")?;
            writeln!(open, "  lua_setfield(L, -2, \"{name}\");")?;
        }
        writeln!(open, "  lua_setfield(L, -2, \"{interface}\");")?;
    }
    Ok(format!("{code}\n{open}}}\n"))
}

fn snake(name: &str) -> String {
    name.replace('-', "_")
}

struct Glue<'a> {
    resolve: &'a Resolve,
    body: String,
    /// Counts C locals, to make their names unique.
    locals: usize,
    /// Whether it is one of [`gathered::FUNCTIONS`].
    is_gathered: bool,
}

fn function_glue(resolve: &Resolve, interface: &str, function: &Function) -> Result<String> {
    let name = snake(&function.name);
    let what = format!("{interface}.{name}");
    let is_gathered = gathered::FUNCTIONS.contains(&what.as_str());
    let body = head(is_gathered, &format!("{interface}_{name}"), &what, function.params.len());
    let mut glue = Glue { resolve, body, locals: 0, is_gathered };
    let mut arguments = Vec::new();
    for (i, param) in function.params.iter().enumerate() {
        let local = format!("a{i}");
        if let Some(inner) = glue.as_option(param.ty) {
            writeln!(glue.body, "  {} {local} = {{0}};\n  int has_{local} = 0;", glue.c_type(inner)?)?;
            arguments.push(format!("has_{local} ? &{local} : NULL"));
        } else {
            writeln!(glue.body, "  {} {local} = {{0}};", glue.c_type(param.ty)?)?;
            arguments.push(if glue.by_value(param.ty) { local } else { format!("&{local}") });
        }
    }
    // A call that was made has used its arguments.
    writeln!(glue.body, "{}", if is_gathered { "  if (!number) {" } else { "  {" })?;
    for (i, param) in function.params.iter().enumerate() {
        let (index, local) = ((i + 1).to_string(), format!("a{i}"));
        let label = format!("{what}: {}", snake(&param.name));
        if let Some(inner) = glue.as_option(param.ty) {
            writeln!(glue.body, "  has_{local} = !lua_isnil(L, {index});\n  if (has_{local}) {{")?;
            glue.take(inner, &index, &local, &label)?;
            writeln!(glue.body, "  }}")?;
        } else {
            glue.take(param.ty, &index, &local, &label)?;
        }
    }
    writeln!(glue.body, "  }}")?;
    glue.call(function.result, &format!("{PREFIX}_{interface}_{name}"), arguments, &what)?;
    writeln!(glue.body, "}}")?;
    if is_gathered {
        glue.body += &gathered::entry(&format!("{interface}_{name}"));
    }
    Ok(glue.body)
}

/// The head of a function. A gathered one goes on in `made_…` when its task is resumed; `number` is that of its call then.
fn head(is_gathered: bool, name: &str, what: &str, params: usize) -> String {
    if is_gathered {
        return gathered::head(name, what, params);
    }
    format!(
        "\nstatic int host_{name}(lua_State *L) {{\n  meter_host_called();\n  \
         luaL_checkstack(L, 40, \"{what}\");\n  lua_settop(L, {params});\n"
    )
}

impl Glue<'_> {
    fn call(
        &mut self,
        result: Option<Type>,
        call: &str,
        mut arguments: Vec<String>,
        what: &str,
    ) -> Result<()> {
        let Some(result) = result else {
            writeln!(
                self.body,
                "  profile_calling();\n  {call}({});\n  profile_called();\n  return 0;",
                arguments.join(", ")
            )?;
            return Ok(());
        };
        if let Some((ok, error)) = self.as_result(result) {
            let error = error.context("a result needs an error type")?;
            if let Some(ok) = ok {
                writeln!(self.body, "  {} ok;", self.c_type(ok)?)?;
                arguments.push("&ok".to_owned());
            }
            writeln!(self.body, "  {} error;", self.c_type(error)?)?;
            arguments.push("&error".to_owned());
            if self.is_gathered {
                let call = format!("{call}({})", arguments.join(", "));
                self.body += &gathered::call(&what.replace('.', "_"), &call, &self.c_name(error)?);
            } else {
                writeln!(
                    self.body,
                    "  profile_calling();\n  bool done = {call}({});\n  profile_called();\n  if (!done) {{",
                    arguments.join(", ")
                )?;
            }
            self.push(error, "error", what)?;
            writeln!(self.body, "  {}_free(&error);\n  raise_fault(L);\n  }}", self.c_name(error)?)?;
            let Some(ok) = ok else {
                writeln!(self.body, "  return 0;")?;
                return Ok(());
            };
            return self.return_value(ok, "ok", what);
        }
        writeln!(self.body, "  {} ok;", self.c_type(result)?)?;
        writeln!(self.body, "  profile_calling();")?;
        if self.by_value(result) {
            writeln!(self.body, "  ok = {call}({});", arguments.join(", "))?;
        } else {
            arguments.push("&ok".to_owned());
            writeln!(self.body, "  {call}({});", arguments.join(", "))?;
        }
        writeln!(self.body, "  profile_called();")?;
        self.return_value(result, "ok", what)
    }

    fn return_value(&mut self, ty: Type, value: &str, what: &str) -> Result<()> {
        self.push(ty, value, what)?;
        if !self.by_value(ty) {
            writeln!(self.body, "  {}_free(&{value});", self.c_name(ty)?)?;
        }
        writeln!(self.body, "  return 1;")?;
        Ok(())
    }

    /// Emits code that converts the Lua value at `index` and stores it in the C variable `to`.
    fn take(&mut self, ty: Type, index: &str, to: &str, what: &str) -> Result<()> {
        if let Some(codec) = self.codec(ty) {
            ensure!(codec == "json", "{codec} can't be an argument, only a result");
            writeln!(self.body, "  take_json(L, {index}, \"{what}\", &{to}.ptr, &{to}.len);")?;
            return Ok(());
        }
        match self.plain(ty) {
            Type::Bool => writeln!(self.body, "  {to} = lua_toboolean(L, {index});")?,
            Type::S64 | Type::U64 => writeln!(self.body, "  {to} = take_integer(L, {index}, \"{what}\");")?,
            Type::U32 => {
                writeln!(self.body, "  {to} = (uint32_t)take_bounded(L, {index}, \"{what}\", UINT32_MAX);")?;
            }
            Type::F64 => writeln!(self.body, "  {to} = take_number(L, {index}, \"{what}\");")?,
            Type::String => writeln!(self.body, "  take_string(L, {index}, \"{what}\", &{to});")?,
            Type::Id(id) => return self.take_defined(id, index, to, what),
            other => bail!("{other:?} can't be an argument yet"),
        }
        Ok(())
    }

    fn take_defined(&mut self, id: TypeId, index: &str, to: &str, what: &str) -> Result<()> {
        match &self.resolve.types[id].kind {
            TypeDefKind::List(Type::U8) => {
                writeln!(self.body, "  take_bytes(L, {index}, \"{what}\", &{to}.ptr, &{to}.len);")?;
            }
            TypeDefKind::Enum(cases) => {
                let names: Vec<_> = cases.cases.iter().map(|c| format!("\"{}\"", c.name)).collect();
                let list = self.local();
                writeln!(self.body, "  static const char *const {list}[] = {{{}, NULL}};", names.join(", "))?;
                writeln!(self.body, "  {to} = take_enum(L, {index}, \"{what}\", {list});")?;
            }
            TypeDefKind::Option(inner) => {
                writeln!(self.body, "  {to}.is_some = !lua_isnil(L, {index});\n  if ({to}.is_some) {{")?;
                self.take(*inner, index, &format!("{to}.val"), what)?;
                writeln!(self.body, "  }}")?;
            }
            TypeDefKind::Record(record) => {
                writeln!(self.body, "  take_table(L, {index}, \"{what}\");")?;
                for field in &record.fields {
                    let (name, at) = (snake(&field.name), self.local());
                    writeln!(
                        self.body,
                        "  take_field(L, {index}, \"{name}\");\n  int {at} = lua_gettop(L);"
                    )?;
                    self.take(field.ty, &at, &format!("{to}.{name}"), &format!("{what}.{name}"))?;
                }
            }
            TypeDefKind::List(inner) => {
                let (n, i) = (self.local(), self.local());
                writeln!(
                    self.body,
                    "  take_table(L, {index}, \"{what}\");\n  size_t {n} = lua_rawlen(L, {index});"
                )?;
                writeln!(
                    self.body,
                    "  {to}.len = {n};\n  {to}.ptr = lua_newuserdatauv(L, {n} * sizeof *{to}.ptr, 0);"
                )?;
                writeln!(
                    self.body,
                    "  for (size_t {i} = 0; {i} < {n}; {i}++) {{\n  luaL_checkstack(L, 40, \"{what}\");"
                )?;
                let at = self.local();
                writeln!(self.body, "  lua_rawgeti(L, {index}, {i} + 1);\n  int {at} = lua_gettop(L);")?;
                self.take(*inner, &at, &format!("{to}.ptr[{i}]"), what)?;
                writeln!(self.body, "  }}")?;
            }
            other => bail!("a {} can't be an argument yet", other.as_str()),
        }
        Ok(())
    }

    /// Emits code that pushes the C value `from` onto the Lua stack.
    fn push(&mut self, ty: Type, from: &str, what: &str) -> Result<()> {
        if let Some(codec) = self.codec(ty) {
            writeln!(self.body, "  push_{codec}(L, {from}.ptr, {from}.len, \"{what}\");")?;
            return Ok(());
        }
        match self.plain(ty) {
            Type::Bool => writeln!(self.body, "  lua_pushboolean(L, {from});")?,
            Type::U8 | Type::U16 | Type::U32 | Type::S32 | Type::S64 | Type::U64 => {
                writeln!(self.body, "  lua_pushinteger(L, (lua_Integer){from});")?;
            }
            Type::F64 => writeln!(self.body, "  lua_pushnumber(L, {from});")?,
            Type::String => writeln!(self.body, "  push_bytes(L, {from}.ptr, {from}.len);")?,
            Type::Id(id) => return self.push_defined(id, from, what),
            other => bail!("{other:?} can't be a result yet"),
        }
        Ok(())
    }

    fn push_defined(&mut self, id: TypeId, from: &str, what: &str) -> Result<()> {
        match &self.resolve.types[id].kind {
            TypeDefKind::List(Type::U8) => writeln!(self.body, "  push_bytes(L, {from}.ptr, {from}.len);")?,
            TypeDefKind::Enum(cases) => {
                let names: Vec<_> = cases.cases.iter().map(|c| format!("\"{}\"", c.name)).collect();
                let list = self.local();
                writeln!(self.body, "  static const char *const {list}[] = {{{}}};", names.join(", "))?;
                writeln!(self.body, "  lua_pushstring(L, {list}[{from}]);")?;
            }
            TypeDefKind::Option(inner) => {
                writeln!(self.body, "  if ({from}.is_some) {{")?;
                self.push(*inner, &format!("{from}.val"), what)?;
                writeln!(self.body, "  }} else lua_pushnil(L);")?;
            }
            TypeDefKind::Record(record) => {
                writeln!(self.body, "  lua_createtable(L, 0, {});", record.fields.len())?;
                for field in &record.fields {
                    let name = snake(&field.name);
                    self.push(field.ty, &format!("{from}.{name}"), what)?;
                    writeln!(self.body, "  lua_setfield(L, -2, \"{name}\");")?;
                }
            }
            TypeDefKind::List(inner) => {
                let i = self.local();
                writeln!(
                    self.body,
                    "  luaL_checkstack(L, 40, \"{what}\");\n  lua_createtable(L, {from}.len, 0);"
                )?;
                writeln!(self.body, "  for (size_t {i} = 0; {i} < {from}.len; {i}++) {{")?;
                self.push(*inner, &format!("{from}.ptr[{i}]"), what)?;
                writeln!(self.body, "  lua_rawseti(L, -2, (lua_Integer){i} + 1);\n  }}\n  mark_array(L);")?;
            }
            other => bail!("a {} can't be a result yet", other.as_str()),
        }
        Ok(())
    }

    fn local(&mut self) -> String {
        self.locals += 1;
        format!("v{}", self.locals)
    }

    /// The codec of the named byte lists `json` and `rows`.
    fn codec(&self, ty: Type) -> Option<&'static str> {
        let mut ty = ty;
        while let Type::Id(id) = ty {
            let definition = &self.resolve.types[id];
            match definition.name.as_deref() {
                Some("json") => return Some("json"),
                Some("rows") => return Some("rows"),
                _ => {}
            }
            match definition.kind {
                TypeDefKind::Type(next) => ty = next,
                _ => return None,
            }
        }
        None
    }

    /// The type with its aliases resolved.
    fn plain(&self, mut ty: Type) -> Type {
        while let Type::Id(id) = ty {
            match self.resolve.types[id].kind {
                TypeDefKind::Type(next) => ty = next,
                _ => break,
            }
        }
        ty
    }

    fn as_option(&self, ty: Type) -> Option<Type> {
        let Type::Id(id) = self.plain(ty) else { return None };
        match self.resolve.types[id].kind {
            TypeDefKind::Option(inner) => Some(inner),
            _ => None,
        }
    }

    fn as_result(&self, ty: Type) -> Option<(Option<Type>, Option<Type>)> {
        let Type::Id(id) = self.plain(ty) else { return None };
        match &self.resolve.types[id].kind {
            TypeDefKind::Result(result) => Some((result.ok, result.err)),
            _ => None,
        }
    }

    /// Whether the C bindings pass and return the type by value rather than through a pointer.
    fn by_value(&self, ty: Type) -> bool {
        match self.plain(ty) {
            Type::Id(id) => matches!(self.resolve.types[id].kind, TypeDefKind::Enum(_)),
            Type::String => false,
            _ => true,
        }
    }

    fn c_type(&self, ty: Type) -> Result<String> {
        Ok(match ty {
            Type::Bool => "bool".to_owned(),
            Type::U8 => "uint8_t".to_owned(),
            Type::U16 => "uint16_t".to_owned(),
            Type::U32 => "uint32_t".to_owned(),
            Type::S32 => "int32_t".to_owned(),
            Type::U64 => "uint64_t".to_owned(),
            Type::S64 => "int64_t".to_owned(),
            Type::F64 => "double".to_owned(),
            other => format!("{}_t", self.c_name(other)?),
        })
    }

    /// The name that wit-bindgen gives the type in C, without the `_t`.
    fn c_name(&self, ty: Type) -> Result<String> {
        match ty {
            Type::String => Ok("guest_string".to_owned()),
            Type::Id(id) => {
                let definition = &self.resolve.types[id];
                match (&definition.name, definition.owner) {
                    (Some(name), TypeOwner::Interface(owner)) => {
                        let owner = self.resolve.interfaces[owner].name.as_deref().unwrap_or_default();
                        Ok(format!("{PREFIX}_{}_{}", snake(owner), snake(name)))
                    }
                    (None, _) if matches!(definition.kind, TypeDefKind::List(Type::U8)) => {
                        Ok("guest_list_u8".to_owned())
                    }
                    _ => bail!("give this {} a name in wit/", definition.kind.as_str()),
                }
            }
            other => bail!("{other:?} has no name in C"),
        }
    }
}
