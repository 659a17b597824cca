// Of two tabs that change the same script or lexicon, the second one is told, and nothing is lost.
import assert from "node:assert/strict";
import { test } from "node:test";
import { checkAccessibility, open, settled } from "../lib/browser.mjs";
import { LIST, NOTE, query, record } from "../lib/lexicons.mjs";
import { until } from "../lib/until.mjs";
import { asUser, newAccount, newServer } from "../world.mjs";

/** Milliseconds between two keys of a quick writer. */
const SPEED = 30;

const ID = `xrpc.query:${LIST}`;

/** Types a comment at the end of the editor's text, and saves it. */
async function write(page, text) {
  await page.locator(".cm-content").click();
  await page.keyboard.press("ControlOrMeta+End");
  await page.keyboard.type(text, { delay: SPEED });
}

/** A second tab of the same browser. */
async function secondTab(page, place) {
  const other = await page.context().newPage();
  await other.goto(`${page.base}/dashboard/#${place}`);
  await other.locator(".cm-content").waitFor();
  return other;
}

test("a script that someone else saved is not overwritten unasked", async () => {
  const alice = await newAccount();
  const server = await newServer({ owner: alice });
  await server.upload(record(NOTE));
  await server.upload(query(LIST), { target_collection: NOTE });
  await server.api("POST", "/admin/scripts", {
    id: ID,
    body: "function handle() return {} end",
  });
  const stored = async () =>
    (await server.api("GET", `/admin/scripts/${ID}`)).body;
  await asUser(server, alice, {}, async (page) => {
    await open(page, `/scripts/${encodeURIComponent(ID)}`);
    await write(page, " -- mine");
    await server.api("PATCH", `/admin/scripts/${ID}`, {
      body: "function handle() return {} end -- theirs",
      description: "It lists nothing",
    });

    await page.getByRole("button", { name: "Save", exact: true }).click();
    const note = page.getByRole("region", { name: "Saved by someone else" });
    await note.getByText("someone has saved another version").waitFor();
    assert.ok((await stored()).endsWith("-- theirs"), "nothing was saved");
    await note.getByRole("button", { name: "Compare" }).click();
    await note.getByText("-- mine").waitFor();
    await note.getByText("-- theirs").waitFor();
    await note.getByText("It lists nothing").waitFor();
    await settled(page);
    await checkAccessibility(page, "a newer script");

    // What was typed survives a reload, and so does the knowledge of its base.
    await page.reload();
    await page
      .getByText("Someone has saved other changes since you began")
      .waitFor();
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await note.getByRole("button", { name: "Replace it with yours" }).click();
    await until("mine is stored", async () =>
      (await stored()).endsWith("-- mine"),
    );
    await note.waitFor({ state: "hidden" });

    // A further save has the new base.
    await write(page, " again");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await until("it is stored", async () =>
      (await stored()).endsWith("-- mine again"),
    );

    await write(page, " and again");
    await server.api("PATCH", `/admin/scripts/${ID}`, {
      body: "function handle() return {} end -- newest",
    });
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await note.getByRole("button", { name: "Discard yours" }).click();
    await note.waitFor({ state: "hidden" });
    assert.match(await page.locator(".cm-content").textContent(), /-- newest$/);
    await page.reload();
    await page.locator(".cm-content").waitFor();
    assert.match(await page.locator(".cm-content").textContent(), /-- newest$/);

    await write(page, " kept");
    await server.api("DELETE", `/admin/scripts/${ID}`);
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await note.getByText("someone has deleted it").waitFor();
    await note.getByRole("button", { name: "Save yours again" }).click();
    await until("it is there again", async () =>
      (await stored()).endsWith("-- newest kept"),
    );
  });
});

test("a lexicon that another tab saved is not overwritten unasked", async () => {
  const alice = await newAccount();
  const server = await newServer({ owner: alice });
  await server.upload(record(NOTE));
  const stored = async () =>
    (await server.api("GET", `/admin/lexicons/${NOTE}`)).lexicon_json
      .description;
  const describe = async (page, text) => {
    await page.locator(".cm-content").click();
    await page.keyboard.press("ControlOrMeta+Home");
    await page.keyboard.press("End");
    await page.keyboard.type(`"description": "${text}",`, { delay: SPEED });
    await page.getByRole("button", { name: /preview/i }).click();
  };
  const place = `/lexicons/${NOTE}?tab=edit`;
  await asUser(server, alice, {}, async (page) => {
    await open(page, place);
    const other = await secondTab(page, place);
    await describe(page, "mine");
    await describe(other, "theirs");
    await other.getByRole("button", { name: "Save", exact: true }).click();
    await until("theirs is stored", async () => (await stored()) === "theirs");
    await other.close();

    await page.getByRole("button", { name: "Save", exact: true }).click();
    const note = page.getByRole("region", { name: "Saved by someone else" });
    await note.getByRole("button", { name: "Compare" }).click();
    await note.getByText('"description": "theirs"').waitFor();
    assert.equal(await stored(), "theirs");
    await note.getByRole("button", { name: "Replace it with yours" }).click();
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await until("mine is stored", async () => (await stored()) === "mine");
  });
});
