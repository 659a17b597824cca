//! Writes functions with special syntax: SUBSTRING, TRIM, POSITION, EXTRACT and others.

use sqlparser::ast::{CeilFloorKind, DateTimeField, Expr, TrimWhereField};

use super::expr::Part;
use super::{Emitter, GuardError, bounds, unsupported};

impl Emitter<'_> {
    pub(super) fn special(&mut self, expr: &Expr) -> Result<(), GuardError> {
        match expr {
            Expr::Substring { expr, substring_from, substring_for, special: _, shorthand: _ } => {
                let Some(from) = substring_from else { return unsupported("SUBSTRING without a start") };
                self.bounded_result(|emit| {
                    emit.push("substr(");
                    emit.expr(expr)?;
                    emit.push(", ");
                    emit.expr(from)?;
                    if let Some(length) = substring_for {
                        emit.push(", ");
                        emit.expr(length)?;
                    }
                    emit.push(")");
                    Ok(())
                })
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    None | Some(TrimWhereField::Both) if self.is_postgres() => "btrim(",
                    None | Some(TrimWhereField::Both) => "trim(",
                    Some(TrimWhereField::Leading) => "ltrim(",
                    Some(TrimWhereField::Trailing) => "rtrim(",
                };
                self.bounded_result(|emit| {
                    emit.push(name);
                    emit.expr(expr)?;
                    let characters = trim_what.iter().map(|e| &**e).chain(trim_characters.iter().flatten());
                    for characters in characters {
                        emit.push(", ");
                        emit.bounded_arg(characters, bounds::TRIM_SET)?;
                    }
                    emit.push(")");
                    Ok(())
                })
            }
            Expr::Position { expr, r#in } if self.is_postgres() => self.bounded_result(|emit| {
                emit.push("strpos(");
                emit.expr(r#in)?;
                emit.push(", ");
                emit.bounded_arg(expr, bounds::NEEDLE)?;
                emit.push(")");
                Ok(())
            }),
            Expr::Ceil { expr, field } if self.is_postgres() => self.rounded("ceil(", expr, field),
            Expr::Floor { expr, field } if self.is_postgres() => self.rounded("floor(", expr, field),
            Expr::Extract { field, syntax: _, expr } if self.is_postgres() => {
                let name = match field {
                    DateTimeField::Year => "year",
                    DateTimeField::Month => "month",
                    DateTimeField::Day => "day",
                    DateTimeField::Hour => "hour",
                    DateTimeField::Minute => "minute",
                    DateTimeField::Second => "second",
                    DateTimeField::Dow => "dow",
                    DateTimeField::Doy => "doy",
                    DateTimeField::Epoch => "epoch",
                    DateTimeField::Quarter => "quarter",
                    DateTimeField::Week(None) => "week",
                    DateTimeField::Isodow => "isodow",
                    DateTimeField::Isoyear => "isoyear",
                    _ => return unsupported("this field of EXTRACT"),
                };
                self.push(&format!("EXTRACT({name} FROM "));
                self.expr(expr)?;
                self.push(")");
                Ok(())
            }
            Expr::AtTimeZone { timestamp, time_zone } if self.is_postgres() => {
                self.bracketed(&[Part::Expr(timestamp), Part::Word(" AT TIME ZONE "), Part::Expr(time_zone)])
            }
            _ => unsupported("this expression"),
        }
    }

    fn rounded(&mut self, open: &str, expr: &Expr, field: &CeilFloorKind) -> Result<(), GuardError> {
        let CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) = field else {
            return unsupported("rounding to something");
        };
        self.push(open);
        self.expr(expr)?;
        self.push(")");
        Ok(())
    }
}
