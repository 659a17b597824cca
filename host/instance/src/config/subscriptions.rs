//! Settings of subscriptions.

use clap::Args;

use super::{NumberSetting, Problems};

/// Jetstream replays three days, and clients that were away for longer load the list again.
const WINDOW_SECONDS: NumberSetting<u32> = NumberSetting {
    variable: "SUBSCRIPTION_WINDOW_SECONDS",
    default: 259_200,
    range: 60..=31_536_000,
    about: "Seconds that changes are kept for subscriptions to resume",
};

const WINDOW_MEGABYTES: NumberSetting<u32> = NumberSetting {
    variable: "SUBSCRIPTION_WINDOW_MEGABYTES",
    default: 1_024,
    range: 1..=1_048_576,
    about: "Megabytes of changes that are kept for subscriptions at most",
};

const SOCKETS: NumberSetting<u32> = NumberSetting {
    variable: "SUBSCRIPTION_SOCKETS",
    default: 12_000,
    range: 1..=1_000_000,
    about: "Connections to subscriptions of this host at the same time",
};

const SOCKETS_PER_CLIENT: NumberSetting<u32> = NumberSetting {
    variable: "SUBSCRIPTION_SOCKETS_PER_CLIENT",
    default: 10_000,
    range: 1..=1_000_000,
    about: "Of them, those that name the same API client, or are of the same account without one",
};

const SOCKETS_PER_ADDRESS: NumberSetting<u32> = NumberSetting {
    variable: "SUBSCRIPTION_SOCKETS_PER_ADDRESS",
    default: 64,
    range: 1..=1_000_000,
    about: "Of them, those of the same account, or that come from the same address without one",
};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Subscriptions")]
pub struct SubscriptionsArgs {
    #[arg(long = "subscription-window-seconds", env = WINDOW_SECONDS.variable, help = WINDOW_SECONDS.help(), global = true,
        value_name = "SECONDS")]
    pub window_seconds: Option<String>,
    #[arg(long = "subscription-window-megabytes", env = WINDOW_MEGABYTES.variable, help = WINDOW_MEGABYTES.help(),
        global = true, value_name = "MEGABYTES")]
    pub window_megabytes: Option<String>,
    #[arg(long = "subscription-sockets", env = SOCKETS.variable, help = SOCKETS.help(), global = true, value_name = "COUNT")]
    pub sockets: Option<String>,
    #[arg(long = "subscription-sockets-per-client", env = SOCKETS_PER_CLIENT.variable, help = SOCKETS_PER_CLIENT.help(),
        global = true, value_name = "COUNT")]
    pub sockets_per_client: Option<String>,
    #[arg(long = "subscription-sockets-per-address", env = SOCKETS_PER_ADDRESS.variable, help = SOCKETS_PER_ADDRESS.help(),
        global = true, value_name = "COUNT")]
    pub sockets_per_address: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Subscriptions {
    pub window_seconds: u32,
    pub window_megabytes: u32,
    pub sockets: u32,
    pub sockets_per_client: u32,
    pub sockets_per_address: u32,
}

impl SubscriptionsArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Subscriptions {
        Subscriptions {
            window_seconds: WINDOW_SECONDS.read(self.window_seconds, problems),
            window_megabytes: WINDOW_MEGABYTES.read(self.window_megabytes, problems),
            sockets: SOCKETS.read(self.sockets, problems),
            sockets_per_client: SOCKETS_PER_CLIENT.read(self.sockets_per_client, problems),
            sockets_per_address: SOCKETS_PER_ADDRESS.read(self.sockets_per_address, problems),
        }
    }
}
