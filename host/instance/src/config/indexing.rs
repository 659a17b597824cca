//! Settings of the network services that the instance uses: Jetstream, relay and PLC directory.

use std::path::PathBuf;

use clap::Args;

use super::{Problems, Setting, parse};

/// In place of a URL: no stream is followed, and only the writes of this instance are indexed.
const NO_STREAM: &str = "none";

const JETSTREAM: Setting<&str> = Setting {
    variable: "JETSTREAM_URL",
    default: "wss://jetstream1.us-east.bsky.network",
    about: "Jetstream servers, comma-separated, tried one after another; `none` follows no stream",
};

const RELAY: Setting<&str> = Setting {
    variable: "RELAY_URL",
    default: "https://bsky.network",
    about: "Relay that lists the repos for backfills",
};

pub const PLC: Setting<&str> = Setting {
    variable: "PLC_URL",
    default: "https://plc.directory",
    about: "Directory of did:plc documents",
};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Network")]
pub struct IndexingArgs {
    #[arg(long, env = JETSTREAM.variable, help = JETSTREAM.help(), global = true, value_name = "URLS")]
    pub jetstream_url: Option<String>,
    /// zstd dictionary of the Jetstream servers; if set, the stream is requested compressed
    #[arg(long, env = "JETSTREAM_ZSTD_DICT", global = true, value_name = "PATH")]
    pub jetstream_zstd_dict: Option<String>,
    #[arg(long, env = RELAY.variable, help = RELAY.help(), global = true, value_name = "URL")]
    pub relay_url: Option<String>,
    #[arg(long, env = PLC.variable, help = PLC.help(), global = true, value_name = "URL")]
    pub plc_url: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Indexing {
    /// WebSocket addresses without a trailing slash. Empty: no stream is followed.
    pub jetstream_urls: Vec<String>,
    pub jetstream_zstd_dict: Option<PathBuf>,
    /// Without a trailing slash.
    pub relay_url: String,
    /// Without a trailing slash.
    pub plc_url: String,
}

impl IndexingArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Indexing {
        let mut jetstream_urls = parse::list(self.jetstream_url);
        if jetstream_urls.is_empty() {
            jetstream_urls.push(JETSTREAM.default.to_owned());
        }
        if jetstream_urls == [NO_STREAM] {
            jetstream_urls.clear();
        }
        let jetstream_urls = jetstream_urls
            .into_iter()
            .filter(|url| parse::url(JETSTREAM.variable, url, &["wss", "ws"], problems).is_some())
            .map(|url| without_slash(&url))
            .collect();
        let jetstream_zstd_dict = parse::text(self.jetstream_zstd_dict).map(PathBuf::from);
        if let Some(path) = &jetstream_zstd_dict
            && !path.is_file()
        {
            problems.add("JETSTREAM_ZSTD_DICT", format!("{} is not a file", path.display()));
        }
        let mut http = |setting: Setting<&'static str>, value| {
            let url = setting.read(value);
            parse::url(setting.variable, &url, &["https", "http"], problems);
            without_slash(&url)
        };
        Indexing {
            relay_url: http(RELAY, self.relay_url),
            plc_url: http(PLC, self.plc_url),
            jetstream_urls,
            jetstream_zstd_dict,
        }
    }
}

fn without_slash(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_servers_are_kept_in_order() {
        let mut problems = Problems::default();
        let args = IndexingArgs {
            jetstream_url: Some("wss://a.test/, ws://127.0.0.1:1/subscribe".to_owned()),
            ..IndexingArgs::default()
        };
        let indexing = args.check(&mut problems);
        assert_eq!(indexing.jetstream_urls, ["wss://a.test", "ws://127.0.0.1:1/subscribe"]);
        assert_eq!(indexing.plc_url, PLC.default);
        let none = IndexingArgs { jetstream_url: Some("none".to_owned()), ..IndexingArgs::default() };
        assert!(none.check(&mut problems).jetstream_urls.is_empty());
        assert_eq!(problems, Problems::default());
    }
}
