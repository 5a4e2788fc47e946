import { expect, test } from "vitest";
import {
  defaultStartCommand,
  execCommand,
  type NodeBuild,
  renderServerDockerfile,
  renderStaticDockerfile,
} from "./dockerfile.ts";
import { type Packages, parsePackageJson } from "./packages.ts";

const npm: Packages = {
  manager: "npm",
  version: "",
  locked: true,
  manifests: ["package.json", "package-lock.json"],
  separable: true,
};
const aBuild = (changes: Partial<NodeBuild> = {}): NodeBuild => ({
  baseImage: "node:24-slim",
  packages: npm,
  appDirectory: "",
  buildCommand: "npm run build",
  cacheNamespace: "p1",
  hasCaBundle: false,
  ...changes,
});
const server = { startCommand: "npm start", port: 3000 };

test("a server installs from its lock file before the sources are copied, and leaves the build behind", () => {
  expect(renderServerDockerfile(aBuild(), server).split("\n")).toEqual([
    "FROM node:24-slim AS build",
    "ARG SVC_CACHE_NAMESPACE",
    "ENV CI=true npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false",
    "WORKDIR /app",
    'COPY ["source/package.json","source/package-lock.json","/app/"]',
    'RUN --mount=type=cache,id=p1-npm,target=/root/.npm ["/bin/sh","-c","npm ci"]',
    'COPY ["source/","/app/"]',
    'RUN ["/bin/sh","-c","npm run build"]',
    'RUN ["/bin/sh","-c","npm prune --omit=dev"]',
    "",
    "FROM node:24-slim",
    "ENV NODE_ENV=production PORT=3000 HOME=/app",
    "COPY --from=build --chown=1000:1000 /app /app",
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
  const [, final] = renderStaticDockerfile(aBuild({ appDirectory: "apps/web" }), "dist").split("\n\n");
  expect(final).toBe('FROM scratch\nCOPY --from=build ["/app/apps/web/dist/","/site/"]\n');
});

test("a command with line breaks and quotes stays one argument", () => {
  const text = renderServerDockerfile(aBuild({ buildCommand: 'echo "a"\nFROM evil' }), server);
  expect(text).toContain('RUN ["/bin/sh","-c","echo \\"a\\"\\nFROM evil"]');
  expect(text.split("\n").filter((line) => line.startsWith("FROM"))).toHaveLength(2);
});

test.each([
  { manager: "pnpm", installs: "pnpm install --frozen-lockfile" },
  { manager: "yarn", installs: "yarn install --frozen-lockfile" },
  { manager: "yarn-berry", installs: "yarn install --immutable" },
  { manager: "bun", installs: "bun install --frozen-lockfile" },
] as const)("$manager installs with '$installs'", ({ manager, installs }) => {
  expect(renderServerDockerfile(aBuild({ packages: { ...npm, manager } }), server)).toContain(installs);
});

test.each([
  { command: "node server.js --port=1", becomes: "exec node server.js --port=1" },
  { command: "npm run migrate && node server.js", becomes: "npm run migrate && node server.js" },
  { command: "PORT=1 node server.js", becomes: "PORT=1 node server.js" },
  { command: "node 'a b.js'", becomes: "node 'a b.js'" },
])("'$command' runs as '$becomes'", ({ command, becomes }) => {
  expect(execCommand(command)).toBe(becomes);
});

test.each([
  { when: "there is a start script", json: { scripts: { start: "node x" } }, files: [], command: "npm start" },
  { when: "there is a main file", json: { main: "src/x.js" }, files: [], command: "node src/x.js" },
  { when: "the main file has a name of shell syntax", json: { main: "$(x)" }, files: [], command: null },
  { when: "a file has a usual name", json: {}, files: ["server.js"], command: "node server.js" },
  { when: "nothing tells", json: {}, files: [], command: null },
])("when $when the server starts with $command", ({ json, files, command }) => {
  const found = defaultStartCommand(parsePackageJson(JSON.stringify(json)), (name) =>
    (files as string[]).includes(name),
  );
  expect(found).toBe(command);
});
