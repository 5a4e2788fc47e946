import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromiumLaunch } from "@svc/runtime/testing/chromium";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster.ts";
import { succeeded } from "../support/api.ts";
import { type Deployed, deploy } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { waitFor } from "../support/wait-for.ts";

/** The app of `svc init --template realtime-todo` behind a site's password, as two people see it who never load it again. */

const waitMs = 120_000;
const password = "open sesame";

let cluster: Cluster;
let dir = "";
let cwd = "";
let site: Deployed;
let ada: Page;
let bob: Page;
const browsers: Browser[] = [];
beforeAll(async () => {
  cluster = await startCluster({ agents: 2, control: { SVC_DRAIN_SECONDS: "0.25" } });
  dir = await mkdtemp(join(tmpdir(), "svc-realtime-todo-"));
  cwd = join(dir, "todos");
  await mkdir(cwd);
  const made = await cluster.cli(["init", "--template", "realtime-todo", "--json"], { cwd });
  expect(made.json()).toMatchObject({ ok: true, app: "Todos" });
  site = await deploy(cluster, cwd);
  await succeeded(cluster, "PATCH", `/projects/${site.project.id}`, { password });
  await waitFor("the password at the edge", waitMs, letsIn);
  [ada, bob] = await Promise.all([visit(), visit()]);
});
afterAll(async () => {
  await Promise.all(browsers.map((browser) => browser.close()));
  await cluster?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

/** Whether the gate opens: an edge has its page perhaps a moment before it knows the password. */
async function letsIn(): Promise<boolean> {
  const body = new URLSearchParams({ password, next: "/" });
  const reply = await edgeFetch(new URL("/_svc/password", site.url).href, { method: "POST", body });
  return reply.headers.getSetCookie().length > 0;
}

// Code of the page: this one knows no document.
const watchStates = `{
  const pill = document.getElementById("connection");
  globalThis.states = [];
  new MutationObserver(() => states.push(pill.dataset.status)).observe(pill, { attributeFilter: ["data-status"] });
}`;

/** A browser of its own that has passed the gate, and keeps in `states` how its page was connected, one after the other. */
async function visit(): Promise<Page> {
  const browser = await chromium.launch(chromiumLaunch());
  browsers.push(browser);
  const page = await browser.newPage();
  page.setDefaultTimeout(waitMs);
  // A gate whose edge is busy asks people to try again.
  await waitFor("the page behind the gate", waitMs, async () => {
    await page.goto(site.url);
    if (await page.getByLabel("What is to be done?").isVisible()) return true;
    await page.getByLabel("Password").fill(password);
    const answered = page.waitForResponse((response) => response.request().method() === "POST");
    await Promise.all([answered, page.getByRole("button", { name: "Go on" }).click()]);
    return false;
  });
  await live(page).waitFor();
  await page.evaluate(watchStates);
  return page;
}

const live = (page: Page) => page.getByRole("status").getByText("Live", { exact: true });
const todo = (page: Page, title: string) => page.getByRole("checkbox", { name: title, exact: true });

async function add(page: Page, title: string): Promise<void> {
  await page.getByLabel("What is to be done?").fill(title);
  await page.getByRole("button", { name: "Add", exact: true }).click();
}

/** Whether each page has lost its stream since `forgetStates`, and has one again. Throws for a page that was loaded anew. */
async function haveReturned(): Promise<boolean> {
  const states = await Promise.all([ada, bob].map((page) => page.evaluate<string[]>("states")));
  return states.every((each) => each.includes("reconnecting") && each.at(-1) === "open");
}
const forgetStates = () => Promise.all([ada, bob].map((page) => page.evaluate("states.length = 0")));

/** Each adds something that the other sees. */
async function talk(about: string): Promise<void> {
  await add(ada, `${about}, says Ada`);
  await todo(bob, `${about}, says Ada`).waitFor();
  await add(bob, `${about}, says Bob`);
  await todo(ada, `${about}, says Bob`).waitFor();
}

async function containerOfApp() {
  const found = await waitFor("one container of the app", waitMs, async () => {
    const ours = (await cluster.containers()).filter(
      ({ labels, state }) => labels["svc.project"] === site.project.id && state === "running" && isApp(labels),
    );
    return ours.length === 1 ? ours[0] : null;
  });
  return cluster.platform.docker.getContainer(found.id);
}
const isApp = (labels: Record<string, string>) => labels["svc.kind"] === "serve";

test("what one browser does, the other shows without being loaded again", async () => {
  await talk("Hello");
  await todo(bob, "Hello, says Ada").check();
  await ada.getByText("1 of 2 done").waitFor();
  expect(await todo(ada, "Hello, says Ada").isChecked()).toBe(true);
  await ada.getByRole("button", { name: "Remove Hello, says Ada" }).click();
  await todo(bob, "Hello, says Ada").waitFor({ state: "detached" });
  expect([await ada.getByRole("alert").isVisible(), await bob.getByRole("alert").isVisible()]).toEqual([false, false]);
});

test("the app knows how many streams its plan allows", async () => {
  const { body } = await cluster.api("GET", "/account/usage");
  const { Config } = await (await containerOfApp()).inspect();
  const { maxSseConnections } = body["plan"] as { maxSseConnections: number };
  expect(Config.Env).toContain(`SVC_MAX_SSE_CONNECTIONS=${maxSseConnections}`);
});

test("a redeploy ends the streams, and both come back to the new app", async () => {
  await forgetStates();
  expect((await deploy(cluster, cwd)).url).toBe(site.url);
  await waitFor("both to be back", waitMs, haveReturned);
  await talk("After a deploy");
  expect(await todo(ada, "Hello, says Bob").count()).toBe(1);
});

test("an app that is killed comes back, and so do both", async () => {
  await forgetStates();
  await (await containerOfApp()).kill();
  await waitFor("both to be back", waitMs, haveReturned);
  await talk("After a fall");
  await Promise.all([ada, bob].map((page) => page.getByText("0 of 5 done").waitFor()));
});
