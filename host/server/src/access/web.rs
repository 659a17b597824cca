//! Creates and checks browser sessions: a signed cookie with a random id, and a row that names its user. Logging out
//! removes the row, which makes every copy of the cookie worthless.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cookie::{Cookie, SameSite};
use http::Method;
use http::header::{COOKIE, HeaderMap, HeaderValue, ORIGIN};

use super::{Browser, Origins};
use belvedere_base::clock::Timestamp;
use belvedere_base::random::Random;
use belvedere_instance::events::requester;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{MacKey, ct_eq, sha256_hex};
use belvedere_storage::store::events::Authentication;
use belvedere_storage::store::web_sessions::{self, WebSessionRow};
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::http::Error;

const SESSION_COOKIE: &str = "belvedere_session";

/// Binds a login to the browser that began it.
const LOGIN_COOKIE: &str = "belvedere_login";

/// Binds a sign-in at another service to the browser in which the user consented.
const CONSENT_COOKIE: &str = "belvedere_consent";

/// Its name where users reach the instance by https. Browsers take a cookie with this prefix from this host only, not from
/// another one of its domain.
const CONSENT_COOKIE_OF_HOST: &str = "__Host-belvedere_consent";

/// Maximum time of such a sign-in.
const CONSENT_SECONDS: i64 = 10 * 60;

/// A month: operators log in more often, and a lost laptop should not stay logged in for ever.
const SESSION_SECONDS: i64 = 30 * 86_400;

/// A login takes minutes.
const LOGIN_SECONDS: i64 = 15 * 60;

/// Browsers that one user may be logged in with. One more logs out the one that logged in first.
const MAX_BROWSERS: i64 = 20;

/// Maximum number of browsers that one login logs out.
const MAX_SURPLUS: u32 = 100;

/// Random bytes of an id: too many to guess.
const ID_BYTES: usize = 32;

/// Reads and writes session cookies. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WebSessions {
    db: Db,
    key: MacKey,
    origins: Origins,
    secure: bool,
}

/// A user who is logged in with a browser.
#[derive(Clone, Debug)]
pub struct WebUser {
    pub did: Did,
    /// Id of the session with their PDS that the login created.
    pub session: String,
    /// Id of the browser's session.
    pub id: String,
    /// Id of the session that this one interrupts, of a login with the attached account.
    pub returns_to: Option<String>,
}

impl WebSessions {
    /// `secret` is the instance's session secret; `secure` says that users reach the instance by https.
    pub fn new(db: Db, secret: &str, origins: Origins, secure: bool) -> Self {
        Self { db, key: MacKey::derive(secret.as_bytes(), "web session"), origins, secure }
    }

    /// The user that a request's cookie belongs to. `None` without a cookie, and for an invalid or expired one.
    ///
    /// # Errors
    /// 403 for a write that may come from a page of another site (CSRF): browsers send the cookie with it too.
    pub async fn user(
        &self,
        method: &Method,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Option<WebUser>, Error> {
        let Some(id) = self.id(headers, SESSION_COOKIE) else { return Ok(None) };
        let found = web_sessions::get(&self.db, &sha256_hex(id.as_bytes()), now).await;
        let Some(row) = found? else { return Ok(None) };
        if !matches!(*method, Method::GET | Method::HEAD) && !self.is_from_own_page(headers) {
            return Err(Error::forbidden("with a session cookie only pages of this instance may write"));
        }
        let did = Did::try_from(row.did.as_str());
        let did = did.map_err(|_| Error::from(StoreError::Corrupt("web_sessions.did".to_owned())))?;
        requester::authenticated(Authentication::Session, None);
        Ok(Some(WebUser { did, session: row.oauth_session_id, id: row.id, returns_to: row.returns_to }))
    }

    /// Whether a browser was logged in when it was last here. Its session may have ended since.
    pub fn was_logged_in(&self, headers: &HeaderMap) -> bool {
        self.id(headers, SESSION_COOKIE).is_some()
    }

    /// Whether a page of this instance sends the request. Browsers send the origin of a page in `Origin` with every write,
    /// and `Sec-Fetch-Site` in addition.
    pub fn is_from_own_page(&self, headers: &HeaderMap) -> bool {
        if let Some(origin) = headers.get(ORIGIN) {
            return origin.to_str().is_ok_and(|origin| self.origins.contains(origin));
        }
        headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin" || site == "none")
    }

    /// Logs a browser in, and returns the cookie to set. `returns_to` is the id of a session in the same browser that
    /// this one interrupts.
    ///
    /// # Errors
    /// When the store can't be written.
    pub async fn create(
        &self,
        random: &Random,
        did: &Did,
        session: &str,
        browser: Browser,
        returns_to: Option<&str>,
        now: Timestamp,
    ) -> Result<HeaderValue, StoreError> {
        let id = URL_SAFE_NO_PAD.encode(random.bytes::<ID_BYTES>());
        let row = WebSessionRow {
            id: sha256_hex(id.as_bytes()),
            did: did.to_string(),
            oauth_session_id: session.to_owned(),
            created_at: now,
            expires_at: now.plus_seconds(SESSION_SECONDS),
            returns_to: returns_to.map(str::to_owned),
            device: browser.device,
            address: browser.address,
            last_used_at: None,
        };
        web_sessions::create(&self.db, &row).await?;
        Ok(self.cookie(SESSION_COOKIE, &self.signed(&id), SESSION_SECONDS))
    }

    /// The PDS sessions of a user's browsers beyond [`MAX_BROWSERS`]. Ending them logs these browsers out.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn surplus(&self, did: &Did) -> Result<Vec<String>, StoreError> {
        web_sessions::surplus(&self.db, did.as_str(), MAX_BROWSERS, MAX_SURPLUS).await
    }

    /// Ends a login with the attached account, and returns the cookie of the user whose session it interrupted; `None`
    /// when that session has ended meanwhile, or is another user's than `original`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn switch_back(
        &self,
        random: &Random,
        from: &WebUser,
        original: &Did,
        now: Timestamp,
    ) -> Result<Option<HeaderValue>, StoreError> {
        let Some(id) = &from.returns_to else { return Ok(None) };
        let row = web_sessions::get(&self.db, id, now).await?;
        let Some(row) = row.filter(|row| row.did == original.as_str()) else { return Ok(None) };
        // The id of a session is known to its browser only, so the user gets a new one.
        let browser = Browser { device: row.device, address: row.address };
        let cookie = self.create(random, original, &row.oauth_session_id, browser, None, now).await?;
        for ended in [&from.id, &row.id] {
            web_sessions::delete(&self.db, ended).await?;
        }
        Ok(Some(cookie))
    }

    /// A cookie that removes the session cookie.
    pub fn removal_cookie(&self) -> HeaderValue {
        self.cookie(SESSION_COOKIE, "", 0)
    }

    /// A cookie that binds a login to this browser, and the hash to compare it with later.
    pub fn login_cookie(&self, random: &Random) -> (HeaderValue, String) {
        let id = URL_SAFE_NO_PAD.encode(random.bytes::<ID_BYTES>());
        (self.cookie(LOGIN_COOKIE, &self.signed(&id), LOGIN_SECONDS), sha256_hex(id.as_bytes()))
    }

    /// Whether the request comes from the browser that a login was bound to.
    pub fn is_login_browser(&self, headers: &HeaderMap, bound: &str) -> bool {
        self.id(headers, LOGIN_COOKIE)
            .is_some_and(|id| ct_eq(sha256_hex(id.as_bytes()).as_bytes(), bound.as_bytes()))
    }

    /// A cookie that binds a sign-in at another service to this browser, and the hash to compare it with later. A browser
    /// keeps its id, so that it can complete several sign-ins.
    pub fn consent_cookie(&self, headers: &HeaderMap, random: &Random) -> (HeaderValue, String) {
        let (name, id) = (self.consent_name(), self.id(headers, self.consent_name()));
        let id = id.unwrap_or_else(|| URL_SAFE_NO_PAD.encode(random.bytes::<ID_BYTES>()));
        (self.cookie(name, &self.signed(&id), CONSENT_SECONDS), sha256_hex(id.as_bytes()))
    }

    /// The hash of the browser's cookie of [`Self::consent_cookie`].
    pub fn consent_browser(&self, headers: &HeaderMap) -> Option<String> {
        self.id(headers, self.consent_name()).map(|id| sha256_hex(id.as_bytes()))
    }

    fn consent_name(&self) -> &'static str {
        if self.secure { CONSENT_COOKIE_OF_HOST } else { CONSENT_COOKIE }
    }

    fn signed(&self, id: &str) -> String {
        format!("{id}.{}", URL_SAFE_NO_PAD.encode(self.key.tag(id.as_bytes())))
    }

    /// The id in a cookie that we signed.
    fn id(&self, headers: &HeaderMap, name: &str) -> Option<String> {
        let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = texts.flat_map(Cookie::split_parse).filter_map(Result::ok);
        let cookie = cookies.find(|cookie| cookie.name() == name)?;
        let (id, tag) = cookie.value().split_once('.')?;
        let good = URL_SAFE_NO_PAD.encode(self.key.tag(id.as_bytes()));
        ct_eq(tag.as_bytes(), good.as_bytes()).then(|| id.to_owned())
    }

    fn cookie(&self, name: &str, value: &str, seconds: i64) -> HeaderValue {
        let cookie = Cookie::build((name, value))
            .path("/")
            .http_only(true)
            .same_site(SameSite::Lax)
            .max_age(cookie::time::Duration::seconds(seconds))
            .secure(self.secure);
        let mut header = HeaderValue::try_from(cookie.to_string()).unwrap_or(HeaderValue::from_static(""));
        header.set_sensitive(true);
        header
    }
}

#[cfg(test)]
mod tests {
    use belvedere_standins::database::Database;

    use super::*;

    #[tokio::test]
    async fn the_cookie_of_a_consent_is_of_this_host_only() {
        let database = Database::sqlite();
        let db = Db::open(&database.url, 1).await.unwrap();
        let sessions =
            |secure| WebSessions::new(db.clone(), "secret", Origins::new("https://own.example"), secure);
        let random = Random::system();
        for (is_secure, name) in [(true, "__Host-belvedere_consent="), (false, "belvedere_consent=")] {
            let sessions = sessions(is_secure);
            let (cookie, browser) = sessions.consent_cookie(&HeaderMap::new(), &random);
            let text = cookie.to_str().unwrap();
            assert!(text.starts_with(name) && text.contains("Path=/") && !text.contains("Domain"), "{text}");
            assert_eq!(text.contains("Secure"), is_secure, "{text}");
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, HeaderValue::from_str(text.split(';').next().unwrap()).unwrap());
            assert_eq!(sessions.consent_browser(&headers), Some(browser));
        }
        // One that another host of the domain has set for all of them.
        let (cookie, _) = sessions(false).consent_cookie(&HeaderMap::new(), &random);
        let mut headers = HeaderMap::new();
        headers.insert(
            COOKIE,
            HeaderValue::from_str(cookie.to_str().unwrap().split(';').next().unwrap()).unwrap(),
        );
        assert_eq!(sessions(true).consent_browser(&headers), None);
    }
}
