//! Refuses functions whose compilation takes out of all proportion to their size, before anything is compiled. The limits of
//! the compiler's process hold for whatever this misses; this names the fault of a function at once.

use wasmparser::{BinaryReaderError, FunctionBody, Operator};

use super::LoadError;
use crate::plugins::limits;

/// The counts of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shape {
    locals: u64,
    loops: u64,
    /// The most loops that are in each other.
    nested_loops: usize,
    /// Loops, conditions and jumps: each ends a piece of straight code.
    branches: u64,
    /// The most blocks that are in each other.
    nesting: usize,
}

/// # Errors
/// The first bound that the function exceeds.
pub(super) fn check(body: &FunctionBody<'_>) -> Result<(), LoadError> {
    let refused = |text: String| Err(LoadError::Invalid(text));
    if body.range().len() > limits::FUNCTION_BYTES {
        return refused(format!("a function is larger than {} MiB", limits::FUNCTION_BYTES >> 20));
    }
    let Shape { locals, loops, nested_loops, branches, nesting } = read(body).map_err(LoadError::damaged)?;
    if loops > limits::LOOPS {
        return refused(format!("a function has more than {} loops", limits::LOOPS));
    }
    if nested_loops > limits::NESTED_LOOPS {
        return refused(format!("loops of a function are nested more than {} deep", limits::NESTED_LOOPS));
    }
    if nesting > limits::NESTED_BLOCKS {
        return refused(format!("blocks of a function are nested more than {} deep", limits::NESTED_BLOCKS));
    }
    if locals.saturating_mul(branches) > limits::LOCALS_BY_BRANCHES {
        return refused(format!(
            "a function has {locals} local variables and {branches} branches, which are too many together"
        ));
    }
    if locals.saturating_mul(loops) > limits::LOCALS_BY_LOOPS {
        return refused(format!(
            "a function has {locals} local variables and {loops} loops, which are too many together"
        ));
    }
    Ok(())
}

fn read(body: &FunctionBody<'_>) -> Result<Shape, BinaryReaderError> {
    let mut shape = Shape::default();
    for local in body.get_locals_reader()? {
        shape.locals += u64::from(local?.0);
    }
    // Whether each open block is a loop. The function itself is a block.
    let mut open = vec![false];
    let mut nested_loops = 0;
    for operator in body.get_operators_reader()? {
        let operator = operator?;
        match operator {
            Operator::Loop { .. } => {
                open.push(true);
                nested_loops += 1;
            }
            Operator::Block { .. } | Operator::If { .. } => open.push(false),
            Operator::End => nested_loops -= usize::from(open.pop() == Some(true)),
            _ => {}
        }
        shape.nesting = shape.nesting.max(open.len());
        shape.nested_loops = shape.nested_loops.max(nested_loops);
        shape.loops += u64::from(matches!(operator, Operator::Loop { .. }));
        shape.branches += u64::from(matches!(
            operator,
            Operator::Loop { .. }
                | Operator::If { .. }
                | Operator::Else
                | Operator::Br { .. }
                | Operator::BrIf { .. }
                | Operator::BrTable { .. }
        ));
    }
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use belvedere_standins::plugins::built;
    use wasmparser::{Parser, Payload};

    use super::*;

    #[test]
    fn a_javascript_engine_has_half_of_each_bound_at_most() {
        let module = built("itchio").module;
        let mut functions = 0;
        for payload in Parser::new(0).parse_all(&module) {
            let Payload::CodeSectionEntry(body) = payload.unwrap() else { continue };
            let shape = read(&body).unwrap();
            let Shape { locals, loops, nested_loops, branches, nesting } = shape;
            functions += 1;
            assert!(2 * body.range().len() < limits::FUNCTION_BYTES, "{shape:?}");
            assert!(2 * nested_loops < limits::NESTED_LOOPS, "{shape:?}");
            assert!(2 * loops < limits::LOOPS && 2 * nesting < limits::NESTED_BLOCKS, "{shape:?}");
            assert!(2 * locals * branches < limits::LOCALS_BY_BRANCHES, "{shape:?}");
            assert!(2 * locals * loops < limits::LOCALS_BY_LOOPS, "{shape:?}");
        }
        assert!(functions > 10_000 && 2 * functions < limits::FUNCTIONS, "{functions}");
    }
}
