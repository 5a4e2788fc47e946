import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromiumLaunch } from "@svc/runtime/testing/chromium";
import { type Browser, chromium } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../../cluster.ts";
import { waitFor } from "../../support/wait-for.ts";

let cluster: Cluster;
let browser: Browser;
let home = "";
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "svc-home-"));
  cluster = await startCluster({ agents: 1 });
  browser = await chromium.launch(chromiumLaunch());
});
afterAll(async () => {
  await browser?.close();
  await cluster?.[Symbol.asyncDispose]();
  await rm(home, { recursive: true, force: true });
});

/** A user who has no key yet. */
const nobody = () => ({ SVC_TOKEN: "", SVC_API_URL: "", XDG_CONFIG_HOME: home, HOME: home });

test("a person signs in, approves the code, and the command line is logged in until it logs out", async () => {
  const { apiUrl, admin } = cluster.platform;
  let said = "";
  const login = cluster.cli(["login", "--json", "--api-url", apiUrl], {
    env: nobody(),
    onStderr: (text) => {
      said += text;
    },
  });
  const { address, code } = await waitFor("address and code", 20_000, () => {
    const [address] = /http:\/\/\S+\/device\S*/.exec(said) ?? [];
    const [, code] = /\bcode ([A-Z0-9]{4}-[A-Z0-9]{4})\b/.exec(said) ?? [];
    return address === undefined || code === undefined ? null : { address, code };
  });

  const page = await browser.newPage();
  await page.goto(address);
  await page.getByLabel(/e-?mail/i).fill(admin.email);
  await page.getByLabel(/password/i).fill(admin.password);
  await page.getByRole("button", { name: /sign in/i }).click();
  // The address has the code in it; the person compares what both show.
  await page.getByText(code, { exact: true }).waitFor();
  await page.getByRole("button", { name: "Let it in" }).click();
  await page.getByRole("heading", { name: "Done" }).waitFor();

  const result = await login;
  expect(result.exitCode).toBe(0);
  expect(result.json()).toMatchObject({ ok: true, operation: "login", apiUrl, user: { email: admin.email } });
  expect(result.stdout + result.stderr).not.toContain(await storedKey());

  const whoami = await cluster.cli(["whoami", "--json"], { env: nobody() });
  expect(whoami.json()).toMatchObject({ source: "config", user: { email: admin.email } });

  const logout = await cluster.cli(["logout", "--json"], { env: nobody() });
  expect(logout.json()).toMatchObject({ revoked: true });
  const after = await cluster.cli(["whoami", "--json"], { env: nobody() });
  expect(after.exitCode).toBe(2);
  expect(after.json()["error"]).toMatchObject({ code: "CLOUD_NOT_LOGGED_IN" });
});

/** The key that login stored; only its owner may read it. */
async function storedKey(): Promise<string> {
  const path = join(home, "svc", "config.json");
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  const { tokenRef }: { tokenRef: string } = JSON.parse(await readFile(path, "utf8"));
  return tokenRef.slice("literal:".length);
}
