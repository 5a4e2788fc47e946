import { expect, test } from "vitest";
import {
  aDeployment,
  anAccepted,
  aProject,
  deploymentId,
  ok,
  projectId,
  type Routes,
  refusal,
  startApi,
} from "./testing/api.ts";
import { aDirectory } from "./testing/svc.ts";
import { runAtTerminal } from "./testing/terminal.ts";

const detail = `GET /api/v1/projects/${projectId}`;
const upload = `POST /api/v1/projects/${projectId}/deployments`;
const stop = `POST /api/v1/projects/${projectId}/stop`;
const poll = `GET /api/v1/deployments/${deploymentId}`;
const runtime = `GET /api/v1/projects/${projectId}/runtime-logs`;
const rename = `PUT /api/v1/projects/${projectId}`;
const env = `/api/v1/projects/${projectId}/env`;

const routes: Routes = {
  [detail]: ok({ project: aProject({ type: "ssr" }), deployments: [aDeployment()] }),
  [upload]: ok(anAccepted(), 202),
  [stop]: ok({ queued: true, deploymentId }, 202),
  [poll]: ok({ deployment: aDeployment({ status: "building" }) }),
  [`GET /api/v1/deployments/${deploymentId}/logs`]: ok({ log: "", offset: 0 }),
  [runtime]: ok({ log: "hello\n", lines: 1 }),
  [`GET ${env}`]: ok({ vars: {} }),
  [`PUT ${env}`]: ok({ keys: ["A"] }),
};
const files = {
  "svc.yml": "version: 2\napp: { name: Shop, type: ssr }\nstart: { command: node server.js }\n",
  "server.js": "",
  ".env": "A=1\n",
  ".svc/state.json": JSON.stringify({ project: { id: projectId, slug: "shop" } }),
};

/** What the program says when Ctrl-C is pressed while the platform has just read a request and not answered it yet. */
async function interruptAt(request: string, argv: string[]) {
  const interrupt = new AbortController();
  const answer = routes[request] ?? ok({});
  await using api = await startApi({
    ...routes,
    [request]: (seen) => {
      interrupt.abort("SIGINT");
      return typeof answer === "function" ? answer(seen) : "body" in answer ? answer : { body: "" };
    },
  });
  await using directory = await aDirectory(files);
  const { status, stderr } = await runAtTerminal(argv, {
    cwd: directory.path,
    env: { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, NO_COLOR: "1" },
    signal: interrupt.signal,
  });
  return { status, advice: adviceIn(stderr) };
}

const adviceIn = (stderr: string): string | null => /Interrupted\n(?:→ (.*)\n)?$/.exec(stderr)?.[1] ?? null;

test.each([
  ["deploy", detail, "Nothing was deployed. Start over with `svc deploy`"],
  ["deploy", upload, "Whether a deployment began is not known. See with `svc status`"],
  [
    "deploy",
    poll,
    expect.stringContaining(`The deployment goes on without you. Follow it with \`svc logs -f ${deploymentId}\``),
  ],
  ["init --force", detail, "svc.yml is written. Whether the project that it is linked to takes it, `svc deploy` says"],
  ["stop", detail, "Nothing was changed"],
  ["stop", stop, "Whether the platform did what was asked is not known: look before you ask again"],
  ["stop", poll, "It goes on without you. See how it ended with `svc status`"],
  ["env push --yes", `PUT ${env}`, expect.stringContaining("is not known")],
  ["projects rename other", rename, expect.stringContaining("is not known")],
  ["status", detail, "Nothing was changed"],
])("svc %s that is interrupted at %s says what of it was done", async (line, request, advice) => {
  expect(await interruptAt(request, line.split(" "))).toEqual({ status: 130, advice });
});

const unlinked = { "svc.yml": "version: 2\napp: { name: Shop, type: ssr }\nstart: { command: node server.js }\n" };
const made: Routes = {
  "POST /api/v1/projects": ok({ project: aProject({ type: "ssr" }) }, 201),
  [poll]: ok({ deployment: aDeployment() }),
};
const undone: Routes = {
  [detail]: ok({
    project: aProject({ type: "ssr" }),
    deployments: [
      aDeployment({ trigger: "rollback" }),
      aDeployment({ id: deploymentId.replaceAll("2", "5"), status: "superseded" }),
    ],
  }),
};
const questions: {
  line: string;
  asked: string;
  advice: string;
  answers?: Routes;
  own?: Readonly<Record<string, string>>;
}[] = [
  {
    line: "init",
    asked: "There is a page and a server",
    own: { "index.html": "", "server.js": "" },
    advice: "Nothing was changed",
  },
  {
    line: "deploy",
    asked: "so that other checkouts",
    own: { ...unlinked, "server.js": "" },
    answers: made,
    advice:
      "svc.yml is as it was. Another checkout would make another project: to deploy to this one, add the line `slug: shop` to svc.yml",
  },
  {
    line: "deploy",
    asked: "Forget it?",
    answers: { [detail]: refusal(404, "NOT_FOUND") },
    advice: "Nothing was deployed. Start over with `svc deploy`",
  },
  { line: `projects delete ${projectId}`, asked: "to go on", advice: "Nothing was changed" },
  { line: "rollback", asked: "Put it back?", answers: undone, advice: "Nothing was changed" },
  {
    line: "registry set ghcr.io --username ada",
    asked: "Password or token",
    answers: { [detail]: ok({ project: aProject({ type: "ociimage" }), deployments: [] }) },
    advice: "Nothing was changed",
  },
];

test.each(
  questions.flatMap((question) => [
    { ...question, by: "typed" as const },
    { ...question, by: "sent" as const },
  ]),
)("svc $line that is interrupted ($by) at its question '$asked' says what was done", async (question) => {
  const { line, asked, advice, by, answers = {}, own = files } = question;
  const interrupt = new AbortController();
  await using api = await startApi({ ...routes, ...answers });
  await using directory = await aDirectory(own);
  const { status, stderr } = await runAtTerminal(line.split(" "), {
    cwd: directory.path,
    env: { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, NO_COLOR: "1" },
    asked,
    signal: interrupt.signal,
    ...(by === "typed" ? { typed: "\u0003" } : { onAsked: () => interrupt.abort("SIGINT") }),
  });
  expect({ status, advice: adviceIn(stderr) }).toEqual({ status: 130, advice });
  expect(api.seen.filter(({ method }) => method === "DELETE" || method === "PUT")).toEqual([]);
});
