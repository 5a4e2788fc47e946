import { rmSync } from "node:fs";
import { mkdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { describe, expect, test } from "vitest";
import { type Answer, ok, type Routes, refusal, type Seen, startApi } from "../../../testing/api.ts";
import { aDirectory, envelopeOf, type SvcOptions, svc } from "../../../testing/svc.ts";
import { runAtTerminal } from "../../../testing/terminal.ts";

const id = "66666666-6666-4666-8666-666666666666";
const otherId = "77777777-7777-4777-8777-777777777777";
const at = "2030-01-01T00:00:00.000Z";
const noDrain = { state: "none", startedAt: null, deadline: null, remaining: 3 };
const aNode = (fields: object = {}) => ({
  ...{ id, name: "node-1", role: "node", status: "ready", lastSeenAt: at, version: "0.5.0" },
  link: { state: "connected", since: at },
  capacity: { memoryMb: 4096, cpuMillicores: 4000, pids: 4000, diskMb: 51_200 },
  allocated: { memoryMb: 1536, cpuMillicores: 1500, pids: 300 },
  ...{
    diskFull: false,
    engineStalled: false,
    dockerfileProblem: null,
    refusal: null,
    runningPlacements: 3,
    labels: { zone: "a" },
    zone: "a",
    drain: noDrain,
    reason: null,
  },
  ...fields,
});
const twin = aNode({ id: otherId });
const aDetail = (fields: object = {}) => ({
  ...aNode(),
  ...{ platform: { os: "linux", architecture: "amd64" }, schedulable: true, createdAt: at },
  operatorLabels: { disk: "fast" },
  used: { memoryMb: 400, cpuMillicores: 250 },
  certificateExpiresAt: "2099-02-03T00:00:00.000Z",
  drain: { ...noDrain, blockers: [] },
  placements: [
    { kind: "serve", project: "shop", channel: "production", prNumber: null, replica: 0, state: "running" },
    { kind: "serve", project: "shop", channel: "preview", prNumber: 12, replica: 1, state: "starting" },
    { kind: "build", project: "a-project-with-a-long-name-so", channel: "production", prNumber: null, replica: 0 },
  ].map((placement) => ({ state: "accepted", health: "healthy", since: at, ...placement })),
  events: [
    { at, kind: "connected", detail: null },
    { at, kind: "cordoned", detail: "noisy disk" },
  ],
  actions: ["cordon", "drain"],
  ...fields,
});
const queued = (action: string, status: string) =>
  ok({ queued: true, action, node: { id, name: "node-1", status } }, 202);
const path = `/api/v1/admin/nodes/${id}`;
const list = "GET /api/v1/admin/nodes";

async function run(line: string, answers: Routes, more: Partial<SvcOptions> = {}) {
  const none = { "GET /api/v1/admin/databases": ok({ databases: [] }) };
  await using api = await startApi({ [list]: ok({ nodes: [aNode()] }), ...none, ...answers });
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" };
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? "");
  const ended = await svc(["admin", "nodes", ...words], { cwd: directory.path, env, ...more });
  const changes = api.seen.filter(({ method }) => method !== "GET");
  return { ...ended, changes: changes.map(said), seen: api.seen };
}
const said = ({ method, path, body }: Seen) => [
  `${method} ${path}`,
  body.length === 0 ? null : JSON.parse(String(body)),
];

describe("svc admin nodes", () => {
  test.each([
    { line: "cordon node-1", action: "cordon", body: {}, status: "cordoned" },
    {
      line: `cordon ${id} --reason 'noisy disk'`,
      action: "cordon",
      body: { reason: "noisy disk" },
      status: "cordoned",
    },
    { line: "uncordon node-1", action: "uncordon", body: {}, status: "ready" },
    {
      line: "drain node-1 --no-wait --deadline 600 --reason kernel",
      action: "drain",
      body: { reason: "kernel", deadlineSeconds: 600 },
      status: "draining",
    },
    { line: "cancel-drain node-1", action: "cancel-drain", body: {}, status: "cordoned" },
    {
      line: "force-fence node-1 --reason 'on fire' --yes",
      action: "force-fence",
      body: { reason: "on fire", confirm: true },
      status: "fenced",
    },
    { line: "remove node-1 --yes", action: "remove", body: { confirm: true }, status: "removed" },
  ])("$line", async ({ line, action, body, status }) => {
    const ended = await run(`${line} --json`, { [`POST ${path}/${action}`]: queued(action, status) });
    expect(envelopeOf(ended)).toEqual({
      ...{ ok: true, operation: `admin.nodes.${action}`, warnings: [], queued: true, action },
      node: { id, name: "node-1", status },
    });
    expect(ended.changes).toEqual([[`POST ${path}/${action}`, body]]);
    expect(ended.seen.at(-1)?.headers["idempotency-key"]).toMatch(/^[0-9a-f-]{36}$/);
  });

  test.each([
    ["force-fence node-1 --reason 'on fire'", 6, "DESTRUCTIVE_CONFIRMATION_REQUIRED"],
    ["remove node-1", 6, "DESTRUCTIVE_CONFIRMATION_REQUIRED"],
    ["force-fence node-1 --yes", 2, "CLI_INVALID_USAGE"],
    ["drain node-1 --deadline 5", 2, "CLI_INVALID_USAGE"],
    ["cordon nothing", 1, "CLOUD_NOT_FOUND"],
    ["label nothing disk=fast", 1, "CLOUD_NOT_FOUND"],
    ["label node-1", 2, "CLI_INVALID_USAGE"],
    ["label node-1 disk", 2, "CLI_INVALID_USAGE"],
    ["label node-1 =fast", 2, "CLI_INVALID_USAGE"],
    ["label node-1 disk=fast disk-", 2, "CLI_INVALID_USAGE"],
    ["label node-1 'my disk=fast'", 2, "CLI_INVALID_USAGE"],
    ["readdress nothing 10.0.0.7", 1, "CLOUD_NOT_FOUND"],
    ["readdress node-1", 2, "CLI_INVALID_USAGE"],
    ["readdress node-1 node-1.test", 2, "CLI_INVALID_USAGE"],
    ["bootstrap-token create", 2, "CLI_INVALID_USAGE"],
    ["bootstrap-token create --file new.token --address 10.0.0.7,all", 2, "CLI_INVALID_USAGE"],
    ["bootstrap-token revoke svcn1.secret", 2, "CLI_INVALID_USAGE"],
  ])("%s ends with %i and changes nothing", async (line, status, code) => {
    const ended = await run(`${line} --json`, {});
    expect([ended.status, envelopeOf(ended)["error"]]).toMatchObject([status, { code }]);
    expect(ended.changes).toEqual([]);
  });

  test("a machine is declared lost also where its databases cannot be listed", async () => {
    const of = { projectId: id, projectSlug: "shop", channel: "production", engine: "postgres" };
    const answers = {
      "GET /api/v1/admin/databases": ok({ databases: [of] }),
      [`POST ${path}/force-fence`]: queued("force-fence", "fenced"),
    };
    const ended = await run("force-fence node-1 --reason 'on fire' --yes --json", answers);
    expect([ended.status, ended.changes]).toMatchObject([0, [[`POST ${path}/force-fence`, { confirm: true }]]]);
  });

  test("a name that two have is refused with their ids, and an id is enough", async () => {
    const answers = { [list]: ok({ nodes: [aNode(), twin] }), [`POST ${path}/cordon`]: queued("cordon", "cordoned") };
    const ended = await run("cordon node-1 --json", answers);
    expect(envelopeOf(ended)["error"]).toMatchObject({
      code: "CLI_INVALID_USAGE",
      hint: expect.stringContaining(otherId),
    });
    expect((await run(`cordon ${id} --json`, answers)).status).toBe(0);
  });

  test("a refusal says why, in the server's words, and where to look", async () => {
    const why = "The node is draining already. For another deadline, cancel that drain first.";
    const ended = await run("drain node-1", { [`POST ${path}/drain`]: refusal(409, "NODE_ACTION_UNAVAILABLE", why) });
    expect(ended.status).toBe(1);
    expect(ended.stderr).toContain(why);
    expect(ended.stderr).toContain("svc admin nodes show node-1");
  });

  test("of one that does not answer only what was heard last is told", async () => {
    const away = {
      status: "unreachable",
      link: { state: "unreachable", since: at },
      lastSeenAt: "2020-01-01T00:00:00Z",
    };
    const { stdout } = await run("show node-1", { [`GET ${path}`]: ok({ node: aDetail(away) }) });
    expect(stdout).toContain("healthy when last heard");
    expect(stdout).toMatch(/seen +\d+ d ago/);
    const listed = await run("list", { [list]: ok({ nodes: [aNode(), aNode({ ...away, id: otherId })] }) });
    expect(listed.stdout).toMatch(/ready +now /);
    expect(listed.stdout).toMatch(/unreachable +\d+ d ago/);
  });

  test.each([
    {
      status: "ready",
      edge: { inRotation: true, phase: "serving" },
      lists: /ready +now/,
      shows: "in rotation, health is good",
    },
    {
      status: "ready",
      edge: { inRotation: false, phase: "serving", lacks: "what 2 hosts serve", unready: "it is new" },
      lists: /ready \(not in rotation yet\)/,
      shows: "out of rotation, lacks what 2 hosts serve, health is bad: it is new",
    },
    {
      status: "draining",
      edge: { inRotation: false, phase: "closing", unready: "it is being drained" },
      lists: /draining \(closing\)/,
      shows: "out of rotation, closing, health is bad: it is being drained",
    },
    { status: "ready", edge: { inRotation: true, phase: null }, lists: /ready +now/, shows: "in rotation" },
  ])("of an edge ($status) it is told whether visitors come", async ({ status, edge, lists, shows }) => {
    const fields = {
      role: "edge",
      status,
      capacity: null,
      allocated: null,
      edge: { lacks: null, unready: null, ...edge },
    };
    const answers = { [list]: ok({ nodes: [aNode(fields)] }), [`GET ${path}`]: ok({ node: aDetail(fields) }) };
    expect((await run("list", answers)).stdout).toMatch(lists);
    expect((await run("show node-1", answers)).stdout).toContain(shows);
  });

  test.each([
    { others: [], says: /lost for ever: no deployment waits for it.*It is the last edge in rotation/ },
    {
      others: [aNode({ id: otherId, name: "edge-2", role: "edge" })],
      says: /lost for ever: no deployment waits for it/,
    },
  ])("force-fence says what it means for an edge, and Ctrl-D changes nothing", async ({ others, says }) => {
    const edge = aNode({
      name: "edge-1",
      role: "edge",
      status: "unreachable",
      link: { state: "unreachable", since: at },
    });
    await using api = await startApi({ [list]: ok({ nodes: [edge, ...others] }) });
    await using directory = await aDirectory();
    const { status, stderr } = await runAtTerminal(
      ["admin", "nodes", "force-fence", "edge-1", "--reason", "its disk broke"],
      { cwd: directory.path, env: { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" }, typed: "\u0004" },
    );
    expect(status).toBe(6);
    const words = stripVTControlCharacters(stderr).replace(/[│\s]+/g, " ");
    expect(words).toMatch(says);
    expect(words.includes("last edge")).toBe(others.length === 0);
    expect(api.seen.map(({ method }) => method)).toEqual(["GET"]);
  });

  test("list and show fit on 80 columns, and show tells all that is known", async () => {
    const leaving = aDetail({ ...{ status: "draining", reason: "noisy disk", memoryShort: true } });
    const ended = await run("show node-1", { [`GET ${path}`]: ok({ node: leaving }) });
    const { stdout } = ended;
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    for (const text of [
      "node-1 is draining (noisy disk)",
      "almost none: it takes no new work",
      "1536 of 4096 MiB set aside, 400 used",
      "1500 of 4000 millicores set aside, 250 used",
      "300 of 4000",
      "50.0 GiB",
      "until 2099-02-03",
      "linux/amd64",
      "cordon, drain",
      "preview 12",
      "starting",
      "healthy",
      "cordoned",
      "noisy disk",
    ])
      expect(stdout).toContain(text);
    const gone = aNode({ id: otherId, status: "removed", link: { state: "unreachable", since: at } });
    const both = { [list]: ok({ nodes: [aNode(), gone] }) };
    expect(envelopeOf(await run("list --json", both))["nodes"]).toEqual([aNode()]);
    expect(envelopeOf(await run("list --all --json", both))["nodes"]).toEqual([aNode(), gone]);
  });
});

describe("svc admin nodes label", () => {
  const labeled = { id, name: "node-1", labels: { disk: "a=b", zone: "b" }, operatorLabels: { disk: "a=b" } };
  const answers = { [`PATCH ${path}`]: ok({ node: labeled }) };

  test("sets labels and takes them away, in one call", async () => {
    const ended = await run("label node-1 disk=a=b empty= room- --json", answers);
    expect(envelopeOf(ended)).toEqual({ ok: true, operation: "admin.nodes.label", warnings: [], node: labeled });
    expect(ended.changes).toEqual([[`PATCH ${path}`, { labels: { disk: "a=b", empty: "", room: null } }]]);
  });

  test("says what is set now, and show tells it from what the machine says", async () => {
    expect((await run("label node-1 disk=a=b", answers)).stdout).toContain("node-1 has disk=a=b from operators");
    const { stdout } = await run("show node-1", { [`GET ${path}`]: ok({ node: aDetail() }) });
    expect(stdout).toMatch(/labels +zone=a\n +by operators +disk=fast\n/);
  });

  test("says which label cannot be, and how one is written", async () => {
    const { stderr } = await run("label node-1 'my disk=fast'", {});
    expect(stderr).toContain('The label "my disk" cannot be set: is not the name of a label');
    expect(stderr).toContain("`disk-`");
    const help = await run("label --help", {});
    expect(help.stdout).toContain("<node> <label...>");
  });
});

describe("svc admin nodes readdress", () => {
  const answers = { [`PUT ${path}/addresses`]: ok({ node: { id, name: "node-1" } }) };

  test("says where edges may reach a node", async () => {
    const ended = await run("readdress node-1 10.0.0.7 10.0.1.7", answers);
    expect(ended.stdout).toContain("node-1 may be reached at 10.0.0.7, 10.0.1.7");
    expect(ended.changes).toEqual([[`PUT ${path}/addresses`, { addresses: ["10.0.0.7", "10.0.1.7"] }]]);
  });

  test("is what show calls for when an agent was turned away", async () => {
    const refusal = "the address that it tells is not its own";
    const { stdout } = await run("show node-1", { [`GET ${path}`]: ok({ node: aDetail({ refusal }) }) });
    expect(stdout).toMatch(/turned away +the address that it tells/);
  });
});

describe("svc admin nodes drain", () => {
  const blocker = {
    ...{ kind: "serve", project: "shop", channel: "production", prNumber: null, replica: 0, waitsFor: "node" },
    ...{ code: "NODE_CAPACITY_UNAVAILABLE", why: "No node takes its replacement (1 node: too little memory)." },
  };
  const look = (state: string, status: string, blockers: object[] = []): Answer =>
    ok({
      node: aDetail({
        status,
        drain: { state, startedAt: at, deadline: "2099-01-01T00:00:00.000Z", remaining: blockers.length, blockers },
      }),
    });
  const moving = { ...blocker, waitsFor: "start", code: null, why: "Its replacement is starting on another node." };
  const drain = { [`POST ${path}/drain`]: queued("drain", "draining") };

  test("looks on until the machine is empty, and says what it sees", async () => {
    const ended = await run("drain node-1 --json", {
      ...drain,
      [`GET ${path}`]: [look("draining", "draining", [moving, moving]), look("drained", "drained")],
    });
    expect(envelopeOf(ended)).toMatchObject({
      ...{ ok: true, queued: true, action: "drain", drained: true },
      node: { id, name: "node-1", status: "drained" },
    });
    expect(ended.stderr).toContain("2 things left, 2 starting elsewhere");
  });

  test("ends when time is up, and names what is left", async () => {
    const ended = await run("drain node-1 --json", {
      ...drain,
      [`GET ${path}`]: [look("draining", "draining", [moving]), look("deadline", "draining", [blocker])],
    });
    expect(ended.status).toBe(1);
    expect(envelopeOf(ended)["error"]).toMatchObject({
      code: "CLOUD_REQUEST_FAILED",
      message: expect.stringContaining("shop (production, replica 0): No node takes its replacement"),
      hint: expect.stringContaining("svc admin nodes cancel-drain node-1"),
    });
  });

  test("ends when somebody else cancels it", async () => {
    const ended = await run("drain node-1 --json", { ...drain, [`GET ${path}`]: look("none", "cordoned") });
    expect(envelopeOf(ended)["error"]).toMatchObject({ message: expect.stringContaining("cancelled meanwhile") });
  });

  test.each(["draining", "deadline"])("comes back to one that is %s, and names what holds it up", async (state) => {
    const underWay = aNode({ status: "draining", drain: { ...noDrain, state } });
    const ended = await run("drain node-1 --json", {
      [list]: ok({ nodes: [underWay] }),
      [`GET ${path}`]: [look(state, "draining", [blocker, moving]), look("drained", "drained")],
    });
    expect(envelopeOf(ended)).toMatchObject({ ok: true, queued: false, drained: true });
    expect(ended.stderr).toContain("shop (production, replica 0): No node takes its replacement (1 node");
    expect(ended.stderr).not.toContain("Its replacement is starting");
    expect(ended.changes).toEqual([]);
  });

  test("leaves it running when somebody presses Ctrl-C, and says so", async () => {
    const ended = await run(
      "drain node-1",
      { ...drain, [`GET ${path}`]: look("draining", "draining", [moving]) },
      { onStderr: (text, kill) => text.includes("1 thing left") && kill("SIGINT") },
    );
    expect(ended.status).toBe(130);
    expect(ended.stderr).toContain("The drain goes on without you");
    expect(ended.changes.map(([call]) => call)).toEqual([`POST ${path}/drain`]);
  });
});

describe("svc admin nodes bootstrap-token", () => {
  const token = `svcn1.${id}.${"a".repeat(64)}.0123456789abcdef.${"c".repeat(32)}`;
  const tokens = "/api/v1/admin/nodes/bootstrap-tokens";
  const created = ok({ bootstrapToken: { id: "0123456789abcdef", token, expiresAt: at } }, 201);
  const revoked = ok({ id: "0123456789abcdef" });

  test("create writes the token to a new file of mode 0600, and shows it nowhere", async () => {
    await using directory = await aDirectory();
    const ended = await run(
      "bootstrap-token create --file new.token --json",
      { [`POST ${tokens}`]: created },
      { cwd: directory.path },
    );
    expect(envelopeOf(ended)).toMatchObject({ ok: true, id: "0123456789abcdef", file: "new.token" });
    const file = join(directory.path, "new.token");
    expect(await readFile(file, "utf8")).toBe(`${token}\n`);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(ended.stdout + ended.stderr).not.toContain("c".repeat(32));
  });

  test("create names the addresses of the node that joins", async () => {
    await using directory = await aDirectory();
    const line = "bootstrap-token create --file new.token --address 10.0.0.7,10.0.1.7";
    const ended = await run(line, { [`POST ${tokens}`]: created }, { cwd: directory.path });
    expect(ended.changes).toEqual([[`POST ${tokens}`, { role: "node", addresses: ["10.0.0.7", "10.0.1.7"] }]]);
  });

  test("create asks for nothing when the file exists or cannot be made", async () => {
    await using directory = await aDirectory({ "old.token": "mine" });
    for (const file of ["old.token", "nowhere/new.token"]) {
      const ended = await run(`bootstrap-token create --file ${file} --json`, {}, { cwd: directory.path });
      expect([ended.status, envelopeOf(ended)["error"]]).toMatchObject([2, { code: "CLI_INVALID_USAGE" }]);
      expect(ended.changes).toEqual([]);
    }
    expect(await readFile(join(directory.path, "old.token"), "utf8")).toBe("mine");
  });

  test("create takes the token back when it cannot be kept", async () => {
    await using directory = await aDirectory();
    const place = join(directory.path, "place");
    await mkdir(place);
    const ended = await run(
      "bootstrap-token create --file place/new.token --json",
      {
        [`POST ${tokens}`]: () => {
          // The file was there before the token was asked for, and now its place is gone, as with a disk that fails.
          rmSync(place, { recursive: true });
          return created;
        },
        [`DELETE ${tokens}/0123456789abcdef`]: revoked,
      },
      { cwd: directory.path },
    );
    expect(ended.status).toBe(1);
    expect(envelopeOf(ended)["error"]).toMatchObject({
      message: expect.stringMatching(/new\.token cannot be written: .* The token was taken back/),
    });
    expect(ended.changes.map(([call]) => call)).toEqual([`POST ${tokens}`, `DELETE ${tokens}/0123456789abcdef`]);
    expect(ended.stdout + ended.stderr).not.toContain("c".repeat(32));
  });

  test("list and revoke", async () => {
    const listed = {
      ...{ id: "0123456789abcdef", role: "edge", status: "used", createdAt: at, expiresAt: at, usedAt: at },
      ...{ revokedAt: null, node: { id, name: "edge-1" } },
    };
    const answers = { [`GET ${tokens}`]: ok({ bootstrapTokens: [listed] }) };
    expect(envelopeOf(await run("bootstrap-token list --json", answers))["bootstrapTokens"]).toEqual([listed]);
    expect((await run("bootstrap-token ls", answers)).stdout).toMatch(/0123456789abcdef +edge +used .* edge-1/);
    const ended = await run("bootstrap-token revoke 0123456789abcdef --json", {
      [`DELETE ${tokens}/0123456789abcdef`]: revoked,
    });
    expect(envelopeOf(ended)).toMatchObject({ ok: true, id: "0123456789abcdef", revoked: true });
    const used = ok({ id: "0123456789abcdef", node: { id, name: "edge-1" } });
    const late = await run("bootstrap-token revoke 0123456789abcdef", { [`DELETE ${tokens}/0123456789abcdef`]: used });
    expect(late.stdout).toContain("edge-1 joined with it before and stays");
  });

  test("says for how long one is good, and takes another span", async () => {
    const soon = new Date(Date.now() + 1_799_000).toISOString();
    const open = { id: "0123456789abcdef", role: "node", status: "open", createdAt: at, expiresAt: soon };
    const none = { usedAt: null, revokedAt: null, node: null };
    const { stdout } = await run("bootstrap-token list", {
      [`GET ${tokens}`]: ok({ bootstrapTokens: [{ ...open, ...none }] }),
    });
    expect(stdout).toMatch(/open .* in 29 min/);
    await using directory = await aDirectory();
    const line = "bootstrap-token create --file a.token --role edge --expires-in";
    const made = await run(`${line} 30m`, { [`POST ${tokens}`]: created }, { cwd: directory.path });
    expect(made.changes).toEqual([[`POST ${tokens}`, { role: "edge", expiresIn: 1800 }]]);
    for (const span of ["1s", "3d", "soon"]) expect((await run(`${line} ${span}`, {})).status).toBe(2);
  });
});

test("a shell completes the names of machines, and offers none when nobody answers", async () => {
  await using api = await startApi({ [list]: ok({ nodes: [aNode(), aNode({ id: otherId, name: "edge-1" })] }) });
  await using directory = await aDirectory();
  const complete = (url: string) =>
    svc(["__complete", "admin", "nodes", "drain", "no"], {
      cwd: directory.path,
      env: { SVC_API_URL: url, SVC_TOKEN: "svc_key" },
    });
  expect((await complete(api.url)).stdout).toBe("node-1\tnode, ready\n");
  const silent = await complete("http://127.0.0.1:9");
  expect([silent.status, silent.stdout, silent.stderr]).toEqual([0, "", ""]);
});
