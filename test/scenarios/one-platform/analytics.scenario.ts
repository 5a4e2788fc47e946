import { analyticsReply } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../../cluster.ts";
import { type Deployed, deploy } from "../../support/deploy.ts";
import { edgeFetch } from "../../support/edge.ts";
import { waitFor } from "../../support/wait-for.ts";

const agents = {
  chrome:
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
  phone:
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
  robot: "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
};

let cluster: Cluster;
let pages: Deployed;
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
  pages = await deploy(cluster, await cluster.exampleDir("static"));
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

test("what visitors look at is shown to the owner, by the API and by svc analytics", async () => {
  const read = async () =>
    analyticsReply.parse((await cluster.api("GET", `/projects/${pages.project.id}/analytics?span=1h`)).body).analytics;
  // What came before the edge was told how to count visitors is not counted, and a row follows once a minute.
  await waitFor("all of them among what is shown", 180_000, async () => {
    for (const agent of Object.values(agents)) {
      const headers = { "user-agent": agent, referer: "https://search.test/results?q=private" };
      expect((await edgeFetch(`${pages.url}/?token=secret`, { headers })).status).toBe(200);
    }
    const [today] = (await read()).visitors;
    return today?.count === 2;
  });
  const shown = await read();
  const values = (list: "paths" | "referrers" | "devices" | "browsers") => shown[list].map(({ value }) => value).sort();
  expect(values("paths")).toEqual(["/"]);
  expect(values("referrers")).toEqual(["search.test"]);
  expect(values("devices")).toEqual(["bot", "desktop", "mobile"]);
  expect(values("browsers")).toEqual(["(bot)", "Chrome", "Safari"]);
  expect(shown.statuses.s2xx).toBeGreaterThanOrEqual(3);
  expect(JSON.stringify(shown)).not.toMatch(/secret|private|127\.0\.0\.1/);

  const cli = await cluster.cli(["analytics", "--project", pages.slug, "--span", "1h"]);
  expect(cli.exitCode).toBe(0);
  expect(cli.stdout).toMatch(/search\.test +\d+/);
  expect(cli.stdout).toContain("█");
});
