import { readProject } from "@svc/proto/frameworks";
import { expect, test } from "vitest";
import {
  execCommand,
  isPlatformStep,
  type NodeBuild,
  renderServerDockerfile,
  renderStaticDockerfile,
} from "./dockerfile.ts";
import type { Packages } from "./packages.ts";
import { createBuildProgress } from "./progress.ts";

const npm: Packages = {
  manager: "npm",
  version: "",
  locked: true,
  files: ["package-lock.json"],
  directories: [],
  separable: true,
  deferred: [],
};
const aBuild = (changes: Partial<NodeBuild> = {}): NodeBuild => ({
  builderImage: "node:24",
  packages: npm,
  framework: null,
  appDirectory: "",
  buildCommand: "npm run build",
  tracesApp: false,
  cacheNamespace: "p1",
  hasCaBundle: false,
  secrets: { install: null, build: null },
  leavesStubs: false,
  ...changes,
});
const server = { command: "npm start", standalone: false, keeps: [], port: 3000, baseImage: "node:24-slim" };
const framework = (name: string) => {
  const text = JSON.stringify({ dependencies: { [name]: "1.0.0" } });
  return readProject({ files: new Set(["package.json"]), texts: new Map([["package.json", text]]) }).framework;
};

test("packages for development stay where the server is started with one of them", () => {
  const prunes = (keeps: string[]) => renderServerDockerfile(aBuild(), { ...server, keeps }).includes("npm prune");
  expect([prunes([]), prunes(["tsx"])]).toEqual([true, false]);
});

test("a server installs from its lock file before the sources are copied, and leaves the build behind", () => {
  expect(renderServerDockerfile(aBuild(), server).split("\n")).toEqual([
    "FROM node:24 AS build",
    "ARG SVC_CACHE_NAMESPACE",
    "ENV CI=true npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false",
    'ENV PATH="/app/node_modules/.bin:$PATH"',
    "WORKDIR /app",
    'COPY ["manifests/","/app/"]',
    'COPY ["source/package-lock.json","/app/"]',
    'RUN --mount=type=cache,id=p1-npm,target=/root/.npm ["/bin/sh","-c","npm ci"]',
    'COPY ["source/","/app/"]',
    'RUN --mount=type=cache,id=p1-node-modules-cache,target=/app/node_modules/.cache ["/bin/sh","-c","npm run build"]',
    'RUN --mount=type=cache,id=p1-npm,target=/root/.npm ["/bin/sh","-c","npm prune --omit=dev"]',
    expect.stringMatching(/^RUN .*rm -rf .*find \/app .* ! -name node_modules -exec cp -a/),
    "",
    "FROM node:24-slim",
    "ENV NODE_ENV=production PORT=3000 HOME=/app HOST=0.0.0.0 npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false",
    'ENV PATH="/app/node_modules/.bin:$PATH"',
    'COPY --from=build --chown=1000:1000 ["/app/node_modules","/app/node_modules"]',
    'COPY --from=build --chown=1000:1000 ["/svc-app","/app"]',
    'WORKDIR "/app"',
    "USER 1000:1000",
    "EXPOSE 3000",
    'CMD ["/bin/sh","-c","exec npm start"]',
    "",
  ]);
});

test("a server without packages and build is copied as it is", () => {
  const text = renderServerDockerfile(aBuild({ packages: null, buildCommand: "" }), server);
  expect(text.match(/^FROM/gm)).toHaveLength(1);
  expect(text).toContain('COPY --chown=1000:1000 ["source/","/app/"]');
});

test("installing waits for the sources when it needs them", () => {
  const text = renderServerDockerfile(aBuild({ packages: { ...npm, separable: false } }), server);
  expect(text.indexOf('COPY ["source/"')).toBeLessThan(text.indexOf("npm ci"));
});

test("the CA bundle is known to the build stage only", () => {
  const [build = "", final = ""] = renderServerDockerfile(aBuild({ hasCaBundle: true }), server).split("\n\n");
  expect(build).toContain("NODE_EXTRA_CA_CERTS=/run/svc-build/ca.pem");
  expect(final).not.toContain("ca.pem");
  expect(final).not.toContain("/run");
});

test("a static site ends in a stage that holds only the output", () => {
  const [, final] = renderStaticDockerfile(aBuild({ appDirectory: "apps/web" }), ["dist"]).split("\n\n");
  expect(final).toBe('FROM scratch\nCOPY --from=build ["/app/apps/web/dist/","/site/"]\n');
});

test("a command with line breaks and quotes stays one argument", () => {
  const text = renderServerDockerfile(aBuild({ buildCommand: 'echo "a"\nFROM evil' }), server);
  expect(text).toContain(' ["/bin/sh","-c","echo \\"a\\"\\nFROM evil"]');
  expect(text.split("\n").filter((line) => line.startsWith("FROM"))).toHaveLength(2);
});

test("a site that may be in several places is taken from the first that is there", () => {
  const [stage, final] = renderStaticDockerfile(aBuild(), ["dist/*/browser", "dist"]).split("\n\n");
  expect(stage).toContain("for each in dist/*/browser dist; do");
  expect(final).toBe('FROM scratch\nCOPY --from=build ["/svc-site/dist/","/site/"]\n');
});

test.each([
  {
    manager: "pnpm",
    version: "9.1.0",
    provides: "pnpm@9.1.0",
    installs: "pnpm install --frozen-lockfile",
    prunes: "pnpm install --prod",
  },
  {
    manager: "yarn",
    version: "",
    provides: "yarn@1",
    installs: "yarn install --frozen-lockfile",
    prunes: "yarn install --production",
  },
  {
    manager: "yarn-berry",
    version: "4.18.1",
    provides: "@yarnpkg/cli-dist@4.18.1",
    installs: "yarn install --immutable",
    prunes: "yarn workspaces focus --production",
  },
  { manager: "bun", version: "", provides: "bun@1", installs: "bun install --frozen-lockfile", prunes: "" },
] as const)("$manager is brought along, installs, and takes out what only the build needed", (one) => {
  const packages = { ...npm, manager: one.manager, version: one.version };
  const [stage, final] = renderServerDockerfile(aBuild({ packages }), server).split("\n\n");
  expect(stage).toContain(`npm install --global ${one.provides} --prefix /opt/svc`);
  expect(stage).toContain(one.installs);
  expect(stage).toContain(one.prunes);
  expect(final).toContain("COPY --from=build /opt/svc /opt/svc");
  expect(final).toContain('ENV PATH="/opt/svc/bin:/app/node_modules/.bin:$PATH"');
});

test("scripts that belong to an installation run once the sources are there", () => {
  const text = renderServerDockerfile(aBuild({ packages: { ...npm, deferred: ["postinstall"] } }), server);
  const order = ["npm ci", 'COPY ["source/"', "npm run postinstall", "npm run build"].map((part) => text.indexOf(part));
  expect(order).toEqual([...order].sort((a, b) => a - b));
});

test("a package of a workspace is built in its directory and pruned at the top", () => {
  const text = renderServerDockerfile(aBuild({ appDirectory: "apps/web" }), server);
  const [stage = "", final] = text.split("\n\n");
  expect(stage.slice(stage.indexOf('WORKDIR "/app/apps/web"'))).toMatch(
    /npm run build[\s\S]*WORKDIR \/app\n[\s\S]*npm prune/,
  );
  expect(final).toContain('ENV PATH="/app/apps/web/node_modules/.bin:/app/node_modules/.bin:$PATH"');
  expect(final).toContain('WORKDIR "/app/apps/web"');
});

test("of a traced Next app only the copy is kept, with what Next leaves out of it", () => {
  const build = aBuild({ framework: framework("next"), tracesApp: true, appDirectory: "apps/web" });
  const text = renderServerDockerfile(build, { ...server, command: "node server.js", standalone: true });
  expect(text).toContain('COPY --from=build --chown=1000:1000 ["/app/apps/web/.next/standalone","/app"]');
  expect(text).toContain("cp -R .next/static");
  expect(text).toContain("HOSTNAME=0.0.0.0");
  expect(text).not.toContain("prune");
  expect(text).toContain("--mount=type=cache,id=p1--next-cache,target=/app/apps/web/.next/cache");
});

test("a traced Next app that is started in its own way stays whole", () => {
  const text = renderServerDockerfile(aBuild({ framework: framework("next"), tracesApp: true }), server);
  expect(text).toContain("cp -R .next/static");
  expect(text).toContain('COPY --from=build --chown=1000:1000 ["/svc-app","/app"]');
});

test("SvelteKit is told where the edge says how it was asked", () => {
  const text = renderServerDockerfile(aBuild({ framework: framework("@sveltejs/kit") }), server);
  expect(text).toContain("PROTOCOL_HEADER=x-forwarded-proto HOST_HEADER=x-forwarded-host");
});

test.each([
  { command: "node server.js --port=1", becomes: "exec node server.js --port=1" },
  { command: "npm run migrate && node server.js", becomes: "npm run migrate && node server.js" },
  { command: "PORT=1 node server.js", becomes: "PORT=1 node server.js" },
  { command: "node 'a b.js'", becomes: "node 'a b.js'" },
])("'$command' runs as '$becomes'", ({ command, becomes }) => {
  expect(execCommand(command)).toBe(becomes);
});

test("steps get variables from a secret, named by what it holds, and the last stage gets none", () => {
  const secrets = { install: "svc-install-env-1", build: "svc-env-2" };
  const text = renderServerDockerfile(aBuild({ secrets, packages: { ...npm, deferred: ["postinstall"] } }), server);
  const from = (id: string) => `--mount=type=secret,id=${id},target=/run/svc-build/env,mode=0444,required=true`;
  const command = (text: string) =>
    JSON.stringify(["/bin/sh", "-c", '. /run/svc-build/env; exec /bin/sh -c "$0"', text]);
  const steps = text.split("\n").filter((line) => line.startsWith("RUN ") && line.includes("type=secret"));
  expect(steps).toEqual([
    `RUN --mount=type=cache,id=p1-npm,target=/root/.npm ${from("svc-install-env-1")} ${command("npm ci")}`,
    `RUN ${from("svc-env-2")} ${command("npm run postinstall")}`,
    `RUN --mount=type=cache,id=p1-node-modules-cache,target=/app/node_modules/.cache ${from("svc-env-2")} ${command("npm run build")}`,
    `RUN --mount=type=cache,id=p1-npm,target=/root/.npm ${from("svc-install-env-1")} ${command("npm prune --omit=dev")}`,
  ]);
  expect(text.slice(text.lastIndexOf("FROM "))).not.toContain("secret");
});

test("an engine that removes targets of mounts finds each of them in the image already", () => {
  const build = aBuild({ secrets: { install: null, build: "svc-env-1" }, leavesStubs: true });
  const lines = renderServerDockerfile(build, server).split("\n");
  expect(lines.slice(0, 2)).toEqual(["FROM svc-stubs:1 AS svc-stubs", "FROM node:24 AS build"]);
  const own = "COPY --from=svc-stubs /etc/hosts /etc/resolv.conf /etc/";
  const steps = lines.flatMap((line, at) => (line.startsWith("RUN ") ? [at] : []));
  expect(steps).toHaveLength(4);
  const before = steps.map((at, index) =>
    lines.slice((steps[index - 1] ?? 1) + 1, at).filter((line) => line.includes("svc-stubs")),
  );
  const directory = (path: string) => `COPY --from=svc-stubs /directory/ ${path}/`;
  expect(before).toEqual([
    [own, directory("/root/.npm")],
    [own, directory("/app/node_modules/.cache"), "COPY --from=svc-stubs /etc/hosts /run/svc-build/env"],
    [own, directory("/root/.npm")],
    [own],
  ]);
});

/** The steps of a Dockerfile that the log of its build has. */
function logged(dockerfile: string, build: NodeBuild): string[] {
  const progress = createBuildProgress([]);
  progress.leaveOut((title) => isPlatformStep(title, build));
  const vertexes = dockerfile
    .split("\n")
    .filter((line) => /^(?:FROM|COPY|RUN|WORKDIR) /.test(line))
    .map((line, at) => {
      const name = `[build ${at}/9] ${line.replaceAll('\\"', '"')}`;
      return { digest: `d${at}`, name, cached: false, started: true, completed: false, error: "" };
    });
  return progress.add({ vertexes, logs: [] }).split("\n").slice(0, -1);
}

const pnpm: Packages = { ...npm, manager: "pnpm", version: "9.1.0", files: ["pnpm-lock.yaml"], deferred: ["prepare"] };
test.each([
  { when: "npm", build: aBuild(), steps: ["#1 RUN npm ci", "#2 RUN npm run build"] },
  {
    when: "pnpm, which the base lacks",
    build: aBuild({ packages: pnpm, buildCommand: 'vite build --mode "a b"' }),
    steps: ["#1 RUN pnpm install --frozen-lockfile", "#2 RUN pnpm run prepare", '#3 RUN vite build --mode "a b"'],
  },
  {
    when: "Next with a traced copy",
    build: aBuild({ framework: framework("next"), tracesApp: true, appDirectory: "apps/web" }),
    steps: ["#1 RUN npm ci", "#2 RUN npm run build"],
  },
  { when: "nothing to install", build: aBuild({ packages: null }), steps: ["#1 RUN npm run build"] },
])("the log of a server with $when has its own commands, and none of the platform's", ({ build, steps }) => {
  const standalone = build.tracesApp;
  expect(logged(renderServerDockerfile(build, { ...server, standalone }), build)).toEqual(steps);
});

test("the log of a site has its own commands, and not where it is looked for", () => {
  const build = aBuild();
  expect(logged(renderStaticDockerfile(build, ["dist", "build"]), build)).toEqual([
    "#1 RUN npm ci",
    "#2 RUN npm run build",
  ]);
});
