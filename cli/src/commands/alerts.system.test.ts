import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { alertEvents } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { aProject, ok, projectId, type Routes, refusal, type Seen, startApi } from "../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const at = "2030-01-01T00:00:00.000Z";
const base = `/api/v1/projects/${projectId}/alerts`;
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const aWebhook = (fields: object = {}) => ({
  ...{ id: "55555555-5555-4555-8555-555555555555", url: "https://hooks.example.test/svc", configured: true },
  ...{ createdAt: at, rotatedAt: null, previousSecretUntil: null, lastDelivery: null },
  ...{ failingSince: null, disabledAt: null, ...fields },
});
const both = { mail: true, webhook: true };
const alerts = (fields: object = {}) => ({
  ...{ enabled: true, email: "ada@svc.test", webhook: null, open: [] },
  ...{ events: Object.fromEntries(alertEvents.map((event) => [event, both])), ...fields },
});

/** Runs in a directory that is linked to the project; `read` reads a file of it. */
async function run<T>(args: string[], answers: Routes, read?: (directory: string) => Promise<T>) {
  const detail = ok({ project: aProject({ id: projectId, slug: "shop" }), deployments: [] });
  await using api = await startApi({ [`GET /api/v1/projects/${projectId}`]: detail, ...answers });
  await using directory = await aDirectory({ ".svc/state.json": state });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
  const ended = await svc(args, { cwd: directory.path, env });
  return { ...ended, seen: api.seen, found: await read?.(directory.path) };
}
const bodyOf = (seen: readonly Seen[], method: string) =>
  JSON.parse(String(seen.find((each) => each.method === method)?.body));
const readSecret = async (directory: string) => {
  const path = join(directory, "hook.secret");
  return { text: await readFile(path, "utf8"), mode: (await stat(path)).mode & 0o777 };
};

describe.concurrent("svc alerts", () => {
  test("show says how each event is told, how the webhook does, and what is wrong", async () => {
    const webhook = aWebhook({
      lastDelivery: { at, status: 500, ok: false, problem: "It answered 500." },
      failingSince: at,
    });
    const open = [{ event: "deployFailed", subject: "production", since: at, detail: "The build failed." }];
    const shown = alerts({ webhook, open });
    const text = await run(["alerts", "show"], { [`GET ${base}`]: ok({ alerts: shown }) });
    expect(text.stdout).toMatch(/deployFailed +mail and webhook/);
    expect(text.stdout).toContain(`failing since ${at}: It answered 500.`);
    expect(text.stdout).toContain(`deployFailed (production) since ${at}: The build failed.`);
    const json = await run(["alerts", "show", "--json"], { [`GET ${base}`]: ok({ alerts: shown }) });
    expect(envelopeOf(json)).toMatchObject({ ok: true, alerts: shown });
  });

  test.each([
    { args: ["siteDown", "webhook"], body: { events: { siteDown: { mail: false, webhook: true } } } },
    { args: ["all", "none"], body: { enabled: false } },
    { args: ["all", "both"], body: { enabled: true, events: alerts().events } },
  ])("set $args changes what it names", async ({ args, body }) => {
    const ended = await run(["alerts", "set", ...args], { [`PATCH ${base}`]: ok({ alerts: alerts() }) });
    expect(ended.status).toBe(0);
    expect(bodyOf(ended.seen, "PATCH")).toEqual(body);
  });

  test("set knows its events", async () => {
    const ended = await run(["alerts", "set", "siteUp", "mail", "--json"], {});
    expect(envelopeOf(ended)).toMatchObject({ ok: false, error: { code: "CLI_INVALID_USAGE" } });
    expect(ended.seen).toEqual([]);
  });

  test.each([
    { args: ["set", "https://hooks.example.test/svc"], route: `PUT ${base}/webhook` },
    { args: ["rotate"], route: `POST ${base}/webhook/rotate` },
  ])("webhook $args writes the secret to a file and prints it nowhere", async ({ args, route }) => {
    const answers = { [route]: ok({ webhook: aWebhook({ previousSecretUntil: at }), secret }) };
    for (const more of [[], ["--json"]]) {
      const ended = await run(["alerts", "webhook", ...args, "--file", "hook.secret", ...more], answers, readSecret);
      expect(ended.status).toBe(0);
      expect(ended.found).toEqual({ text: `${secret}\n`, mode: 0o600 });
      expect(ended.stdout + ended.stderr).not.toContain(secret);
    }
  });

  test("webhook set leaves no file where the address is refused, and asks nothing without one", async () => {
    const refused = {
      [`PUT ${base}/webhook`]: refusal(422, "VALIDATION", "url: Write a host name, not an IP address."),
    };
    const read = (directory: string) => readSecret(directory).catch(() => null);
    const args = ["alerts", "webhook", "set", "https://10.0.0.1", "--json"];
    const ended = await run([...args, "--file", "hook.secret"], refused, read);
    expect(envelopeOf(ended)).toMatchObject({ ok: false, error: { message: expect.stringContaining("not an IP") } });
    expect(ended.found).toBeNull();
    const without = await run(args, refused);
    expect(envelopeOf(without)).toMatchObject({ ok: false, error: { code: "CLI_INVALID_USAGE" } });
    expect(without.seen.filter(({ method }) => method === "PUT")).toEqual([]);
  });

  test.each([
    { args: ["rm", "--yes"], route: `DELETE ${base}/webhook` },
    { args: ["rotate", "--file", "hook.secret"], route: `POST ${base}/webhook/rotate` },
  ])("webhook $args where there is none says how to have one", async ({ args, route }) => {
    const ended = await run(["alerts", "webhook", ...args, "--json"], {
      [route]: refusal(404, "NOT_FOUND", "Not found."),
    });
    expect(envelopeOf(ended)).toMatchObject({
      error: {
        code: "CLOUD_NOT_FOUND",
        message: "shop has no webhook",
        hint: expect.stringContaining("svc alerts webhook set"),
      },
    });
    expect(ended.status).toBe(1);
  });

  test("webhook rm needs a yes", async () => {
    const answers = { [`DELETE ${base}/webhook`]: ok({ alerts: alerts() }) };
    const asked = await run(["alerts", "webhook", "rm", "--json"], answers);
    expect(envelopeOf(asked)).toMatchObject({ ok: false, error: { code: "DESTRUCTIVE_CONFIRMATION_REQUIRED" } });
    const ended = await run(["alerts", "webhook", "rm", "--yes", "--json"], answers);
    expect(envelopeOf(ended)).toMatchObject({ ok: true, deleted: true });
  });
});
