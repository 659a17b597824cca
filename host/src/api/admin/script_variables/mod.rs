//! `/admin/script-variables`

pub mod delete;
pub mod list;
pub mod upsert;

use crate::app::App;
use crate::store::{StoreError, script_variables};

/// Hands the stored variables to the runs that begin from now on.
async fn reload(app: &App) -> Result<(), StoreError> {
    let rows = script_variables::list(&app.db).await?;
    app.script_services.variables.load(&app.sealing, &rows);
    Ok(())
}
