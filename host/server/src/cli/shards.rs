//! `belvedere shards`: shows the shards of a database on a Citus cluster, distributes one, and moves or splits a shard.

use std::process::ExitCode;

use clap::Subcommand;
use tokio::time::Instant;

use super::display::grouped;
use super::{existing, print_error, print_line};
use belvedere_instance::config::Config;
use belvedere_storage::store::Db;
use belvedere_storage::store::shards::{self, Contents, Node, Shard, ShardsError};

/// Collections of a shard that are named.
const NAMED_COLLECTIONS: usize = 3;

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Distribute the database over the nodes of its cluster, or print what would be moved
    Distribute {
        /// Do it: reads go on, writes wait until it is done
        #[arg(long)]
        now: bool,
    },
    /// Move a shard to another node, while it is read and written
    Move {
        /// The number of the shard
        shard: u8,
        /// The node, as host:port
        #[arg(value_name = "HOST:PORT")]
        node: String,
    },
    /// Split a shard between its largest collection and all others, or print what would be moved
    Split {
        /// The number of the shard
        shard: u8,
        /// Do it: reads of the shard go on, writes wait until it is done
        #[arg(long)]
        now: bool,
    },
}

pub(super) async fn run(options: Options, config: &Config) -> anyhow::Result<ExitCode> {
    let db = existing::open(config).await?;
    let done = match options.command {
        None => {
            for node in shards::nodes(&db).await? {
                print_line(&node_line(&node));
            }
            for shard in shards::shards(&db).await? {
                print_line(&shard_line(&shard));
            }
            Ok(())
        }
        Some(Command::Distribute { now }) => {
            for contents in shards::planned(&db).await? {
                print_line(&contents_line(&contents));
            }
            if now {
                let started = Instant::now();
                shards::distribute(&db).await?;
                let seconds = started.elapsed().as_secs_f64();
                print_error(&format_args!("distributed in {seconds:.1} s; start all hosts again"));
            } else {
                print_error(&NOT_DONE);
            }
            Ok(())
        }
        Some(Command::Move { shard, node }) => {
            let moved = shards::move_to(&db, shard, &node).await;
            // Scripts read it there from now on.
            db.look_at_nodes().await;
            moved
        }
        Some(Command::Split { shard, now }) => split(&db, shard, now).await,
    };
    db.close().await;
    done?;
    Ok(ExitCode::SUCCESS)
}

const NOT_DONE: &str = "nothing was changed; with --now it is";

async fn split(db: &Db, number: u8, now: bool) -> Result<(), ShardsError> {
    let started = Instant::now();
    let split = if now { shards::split(db, number).await? } else { shards::plan_split(db, number).await? };
    for (nsid, records) in &split.moved {
        print_line(&format_args!("{:>14} records  {nsid}", grouped(records.unsigned_abs())));
    }
    if !now {
        print_error(&NOT_DONE);
        return Ok(());
    }
    let (own, rest, seconds) = (split.own, split.rest, started.elapsed().as_secs_f64());
    print_error(&format_args!(
        "split in {seconds:.1} s: {} is shard {own}, and these are shard {rest}",
        split.largest
    ));
    db.look_at_nodes().await;
    Ok(())
}

fn node_line(node: &Node) -> String {
    let role = match (node.is_coordinator, node.takes_shards) {
        (true, true) => "coordinator, takes shards",
        (true, false) => "coordinator",
        (false, true) => "takes shards",
        (false, false) => "takes no shards",
    };
    let state = if node.is_active { "" } else { ", not active" };
    format!("node {}: {role}{state}", node.name)
}

fn shard_line(shard: &Shard) -> String {
    let mut collections: Vec<&(String, i64)> = shard.collections.iter().collect();
    collections.sort_by_key(|(nsid, records)| (std::cmp::Reverse(*records), nsid));
    let named = collections.iter().take(NAMED_COLLECTIONS);
    let named: Vec<String> =
        named.map(|(nsid, records)| format!("{nsid} ({})", grouped(records.unsigned_abs()))).collect();
    let more = collections.len().saturating_sub(NAMED_COLLECTIONS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "shard {:>2}  {}  {:>10} KiB  {}{more}",
        shard.number,
        shard.node,
        grouped(shard.bytes.unsigned_abs() / 1024),
        named.join(", ")
    )
}

fn contents_line(contents: &Contents) -> String {
    let how = if contents.is_copied { "a copy on each node" } else { "divided by collection" };
    format!(
        "{:>14} rows  {:>10} KiB  {}: {how}",
        grouped(contents.rows.unsigned_abs()),
        grouped(contents.bytes.unsigned_abs() / 1024),
        contents.table
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_collections_of_a_shard_are_named() {
        let collections = [("a", 1), ("b", 20_000), ("c", 2), ("d", 3)].map(|(nsid, n)| (nsid.to_owned(), n));
        let shard = Shard { number: 3, node: "w1:5432".into(), bytes: 2048, collections: collections.into() };
        assert_eq!(
            shard_line(&shard),
            "shard  3  w1:5432           2 KiB  b (20,000), d (3), c (2) and 1 more"
        );
    }
}
