import { expect, test } from "vitest";
import { type RewriteOptions, rewriteDockerfile } from "./user-dockerfile.ts";

const options: RewriteOptions = {
  cacheNamespace: "p1",
  hasCaBundle: false,
  hasDocuments: true,
  baseImageNames: new Map([["docker.io/library/node:24-slim", "registry.svc.test:5000/bases/node@sha256:1"]]),
  platform: "linux/amd64",
  secretIds: new Map([
    ["TOKEN", "TOKEN-h1"],
    ["svc-env", "svc-env-h2"],
  ]),
  leavesStubs: false,
  kindInContext: (path) => (path === "web/package.json" ? "file" : ["", "web"].includes(path) ? "directory" : null),
};
/** What becomes of the instructions, without the directive in front. */
const rewrite = (text: string, changes: Partial<RewriteOptions> = {}): string => {
  const result = rewriteDockerfile(text, { ...options, ...changes });
  return "text" in result ? result.text.replace(/^# escape=.\n\n/, "").trimEnd() : `refused: ${result.refuse}`;
};

test.each([
  { when: "nothing is special", text: "FROM node AS a\n\n# note\nRUN x\n", becomes: "FROM node AS a\nRUN x" },
  {
    when: "a cache has no id",
    text: "FROM a\nRUN --mount=type=cache,target=/root/.npm npm ci",
    becomes: "FROM a\nRUN --mount=type=cache,id=p1-/root/.npm,target=/root/.npm npm ci",
  },
  {
    when: "options of a cache are written oddly",
    text: "FROM a\nRUN --mount=DST=/c,Id=npm,sharing=locked,GID=2,uid=1,mode=0700,RW,TYPE=Cache npm ci",
    becomes:
      "FROM a\nRUN --mount=type=cache,id=p1-npm,target=/c,readwrite=true,sharing=locked,mode=0700,uid=1,gid=2 npm ci",
  },
  {
    when: "a cache hides in a continued line",
    text: "FROM a\nRUN --mount=type=ca\\\n# comment\n\nche,id=npm,target=/c npm ci",
    becomes: "FROM a\nRUN --mount=type=cache,id=p1-npm,target=/c npm ci",
  },
  {
    when: "a cache hides in quotes",
    text: `FROM a\nRUN --"mount=type=cache",id=npm,target=/c npm ci`,
    becomes: "FROM a\nRUN --mount=type=cache,id=p1-npm,target=/c npm ci",
  },
  {
    when: "a secret of the project is mounted",
    text: "FROM a\nRUN --mount=type=secret,id=TOKEN x",
    becomes: "FROM a\nRUN --mount=type=secret,id=TOKEN-h1,target=/run/secrets/TOKEN x",
  },
  {
    when: "it has a place and more",
    text: "FROM a\nRUN --mount=type=secret,source=TOKEN,required,dst=/t,mode=0400 x",
    becomes: "FROM a\nRUN --mount=type=secret,id=TOKEN-h1,target=/t,required=true,mode=0400 x",
  },
  {
    when: "its place tells its name",
    text: "FROM a\nRUN --mount=type=secret,target=/etc/TOKEN x",
    becomes: "FROM a\nRUN --mount=type=secret,id=TOKEN-h1,target=/etc/TOKEN x",
  },
  {
    when: "it becomes a variable",
    text: "FROM a\nRUN --mount=type=secret,id=TOKEN,env=T x",
    becomes: "FROM a\nRUN --mount=type=secret,id=TOKEN-h1,env=T x",
  },
  {
    when: "all variables are mounted",
    text: "FROM a\nRUN --mount=type=secret,id=svc-env . /run/secrets/svc-env && x",
    becomes: "FROM a\nRUN --mount=type=secret,id=svc-env-h2,target=/run/secrets/svc-env . /run/secrets/svc-env && x",
  },
  {
    when: "the project has no such secret",
    text: "FROM a\nRUN --mount=type=secret,id=OTHER x",
    becomes: "FROM a\nRUN --mount=type=secret,id=OTHER,target=/run/secrets/OTHER x",
  },
  {
    when: "a directory is in memory",
    text: "FROM a\nRUN --mount=target=/t,type=tmpfs,size=64m x",
    becomes: "FROM a\nRUN --mount=type=tmpfs,target=/t,size=64m x",
  },
  {
    when: "files are mounted",
    text: "FROM b AS B\nFROM a\nRUN --mount=target=. --mount=src=x,dst=/x,from=B --mount=target=/y,from=0,rw x",
    becomes:
      "FROM b AS b\nFROM a\nRUN --mount=type=bind,target=. --mount=type=bind,from=B,source=x,target=/x --mount=type=bind,from=0,target=/y,readwrite=true x",
  },
  {
    when: "files are copied with options",
    text: "FROM a\nCOPY --from=0 --chown=$U --link a b\nADD --chmod=755 --exclude=x --exclude=y a b",
    becomes: "FROM a\nCOPY --from=0 --chown=$U --link a b\nCOPY --chmod=755 --exclude=x --exclude=y ./a b",
  },
  { when: "it names the usual syntax", text: "# syntax=docker/dockerfile:1.7\nFROM a", becomes: "FROM a" },
  {
    when: "FROM stands in a continued line",
    text: "FROM a\nRUN echo \\\n  FROM x",
    becomes: "FROM a\nRUN echo   FROM x",
  },
  { when: "FROM spans lines", text: "FROM \\\n node \\\n AS x", becomes: "FROM node AS x" },
  {
    when: "there is a here-document",
    text: "FROM y\nCOPY <<EOF /a\nADD http://x.test/ /\nEOF\nRUN z",
    becomes: "FROM y\nCOPY <<EOF /a\nADD http://x.test/ /\nEOF\nRUN z",
  },
  { when: "it has Windows line ends", text: "FROM a\r\nRUN x", becomes: "FROM a\nRUN x" },
  {
    when: "FROM has variables",
    text: `ARG V=24\nARG I=node:\${V}\nFROM \${I} AS b\nFROM b`,
    becomes: `ARG V=24\nARG I=node:\${V}\nFROM node:24 AS b\nFROM b`,
  },
  { when: "FROM has a default", text: `ARG A\nFROM "\${A:-node}:1"`, becomes: "ARG A\nFROM node:1" },
  {
    when: "the platform is this one",
    text: "FROM --platform=$BUILDPLATFORM a",
    becomes: "FROM a",
  },
  {
    when: "ADD takes local files",
    text: "FROM a\nADD a.txt b /d/\nADD $X ./y /e/",
    becomes: "FROM a\nCOPY ./a.txt ./b /d/\nCOPY ./$X ./y /e/",
  },
  {
    when: "ADD has the exec form",
    text: 'FROM a\nADD --chown=1:1 ["a b", "/d/"]',
    becomes: 'FROM a\nCOPY --chown=1:1 ["./a b","/d/"]',
  },
  {
    when: "network and security are the usual",
    text: "FROM a\nRUN --network=none --security=sandbox x",
    becomes: "FROM a\nRUN --network=none x",
  },
  {
    when: "the exec form has brackets",
    text: 'FROM a\nRUN [ -f x ] && y\nRUN ["a", "<<b"]',
    becomes: 'FROM a\nRUN [ -f x ] && y\nRUN ["a", "<<b"]',
  },
])("when $when", ({ text, becomes }) => {
  expect(rewrite(text)).toBe(becomes);
});

test.each([
  { when: "it names another parser", text: "#syntax=evil.test/x\nFROM a", says: "syntax" },
  {
    when: "the parser hides behind another directive",
    text: "# escape=`\n# syntax=evil.test/x\nFROM a",
    says: "syntax",
  },
  { when: "a step wants the host's network", text: "FROM a\nRUN --network=host x", says: "--network=host" },
  { when: "a step wants privileges", text: "FROM a\nRUN --sec\\\nurity=insecure x", says: "--security=insecure" },
  { when: "a step wants a device", text: "FROM a\nRUN --device=x y", says: "--device" },
  { when: "the type of a mount is a variable", text: "FROM a\nRUN --mount=type=$T,target=/c x", says: "type=$t" },
  { when: "the engine would fetch", text: "FROM a\nADD http://169.254.169.254/latest /x", says: "ADD does not fetch" },
  { when: "the engine would unpack", text: "FROM a\nADD x rootfs.tar.xz /", says: "ADD does not unpack rootfs.tar.xz" },
  {
    when: "the engine would unpack, in the exec form",
    text: 'FROM a\nADD ["b.tgz", "/"]',
    says: "ADD does not unpack",
  },
  { when: "the engine would fetch, in quotes", text: 'FROM a\nADD "https://x.test/y" /x', says: "ADD does not fetch" },
  { when: "the engine would clone", text: "FROM a\nADD git@x.test:y.git /x", says: "ADD does not fetch" },
  { when: "the engine would clone over ssh", text: "FROM a\nADD a@a@x.test:y /x", says: "ADD does not fetch" },
  { when: "the exec form would fetch", text: 'FROM a\nADD ["HTTP://x.test/y", "/x"]', says: "ADD does not fetch" },
  { when: "a name ends in a dot", text: `ARG A=localhost.\nFROM \${A}:4500/x`, says: "is not a registry host" },
  { when: "it starts from an IPv6 address", text: "FROM [::1]:5000/x", says: "is not a registry host" },
  { when: "it copies from nowhere", text: "FROM a\nCOPY --from=x.test:99999/y / /", says: "is not a registry host" },
  {
    when: "it mounts from a name beyond ASCII",
    text: "FROM a\nRUN --mount=from=b\u00fccher.test/x,target=/x y",
    says: "without quotes",
  },
  { when: "a name is beyond ASCII", text: "FROM b\u00fccher.test/x", says: "of ASCII only" },
  { when: "it starts from upper case", text: "FROM acme/Shop", says: "lower-case" },
  { when: "it starts from an image's id", text: `FROM ${"ab".repeat(32)}`, says: "image id" },
  {
    when: "a number is too large for a stage's",
    text: `FROM a\nCOPY --from=${"9".repeat(30)}. / /`,
    says: "lower-case",
  },
  { when: "it starts from nothing", text: 'FROM ""', says: "not the name of an" },
  { when: "it mounts from a variable", text: "FROM a\nRUN --mount=from=$X,target=/x y", says: "without variables" },
  {
    when: "a cache is mounted in part",
    text: "FROM a\nRUN --mount=type=cache,target=/c,source=s x",
    says: "takes no source",
  },
  {
    when: "a cache is mounted in part, by another name",
    text: "FROM a\nRUN --mount=SRC=s,target=/c,type=CACHE x",
    says: "takes no source",
  },
  {
    when: "a cache comes from a stage",
    text: "FROM a AS b\nRUN --mount=type=cache,target=/c,from=b x",
    says: "takes no from",
  },
  { when: "a mount is of no known type", text: "FROM a\nRUN --mount=type=volume,target=/c x", says: "type=volume" },
  { when: "a mount needs an agent", text: "FROM a\nRUN --mount=type=ssh x", says: "no SSH agent" },
  {
    when: "a mount has an unknown option",
    text: "FROM a\nRUN --mount=type=tmpfs,target=/c,idmap=1 x",
    says: "takes no idmap",
  },
  { when: "an option is empty", text: "FROM a\nRUN --mount=type=tmpfs,target=/c, x", says: "has no value" },
  { when: "there is only a mount", text: "FROM a\nRUN --mount x", says: "has no value" },
  { when: "an option is named twice", text: "FROM a\nRUN --mount=type=cache,target=/c,dst=/d x", says: "target twice" },
  { when: "a type is named twice", text: "FROM a\nRUN --mount=type=bind,target=/c,type=cache x", says: "type twice" },
  { when: "options hide in quotes", text: `FROM a\nRUN --mount='type=cache,"target=/c"' x`, says: "without quotes" },
  {
    when: "an option has a variable",
    text: "FROM a\nRUN --mount=type=cache,target=/c,id=$X x",
    says: "without variables",
  },
  {
    when: "a target has a variable",
    text: "FROM a\nRUN --mount=type=tmpfs,target=$HOME/c x",
    says: "without variables",
  },
  { when: "a target is a pattern", text: "FROM a\nRUN --mount=type=tmpfs,target=/[c] x", says: "unusual target" },
  { when: "a target goes up", text: "FROM a\nRUN --mount=type=tmpfs,target=/a/../b x", says: "without `..`" },
  {
    when: "a target is everything",
    text: "FROM a\nRUN --mount=type=tmpfs,target=/./ x",
    says: "nothing can be mounted",
  },
  {
    when: "a target is the kernel's",
    text: "FROM a\nRUN --mount=type=tmpfs,target=//proc/sys x",
    says: "nothing can be mounted",
  },
  { when: "a target is missing", text: "FROM a\nRUN --mount=type=cache,id=a x", says: "needs a target" },
  { when: "a number is none", text: "FROM a\nRUN --mount=type=cache,target=/c,uid=root x", says: "unusual uid" },
  { when: "a stage is not there yet", text: "FROM a\nCOPY --from=1 / /", says: "no stage 1" },
  { when: "COPY has an unknown option", text: "FROM a\nCOPY --From=0 / /", says: "--From of COPY" },
  {
    when: "ADD has an option of what is fetched",
    text: "FROM a\nADD --keep-git-dir a /",
    says: "--keep-git-dir of ADD",
  },
  { when: "FROM has an unknown option", text: "FROM --x=y a", says: "--x of FROM" },
  { when: "an option of COPY is there twice", text: "FROM a\nCOPY --from=0 --from=b / /", says: "--from twice" },
  { when: "an instruction is unknown", text: "FROM a\nMOUNT x", says: "MOUNT is not" },
  { when: "FROM has more than a name", text: "FROM a AS b c", says: "FROM image" },
  { when: "a stage has an odd name", text: "FROM a AS 0", says: "name of a stage" },
  { when: "a stage has the platform's name", text: "FROM a AS Svc-Stubs", says: "name of a stage" },
  { when: "an image brings an option along", text: "ARG I=--platform=x\nFROM $I", says: "not the name" },
  { when: "an image brings a name along", text: 'ARG I="a AS b"\nFROM $I', says: "not the name" },
  { when: "it has triggers", text: "FROM a\nONBUILD ADD http://x.test/ /", says: "ONBUILD" },
  { when: "FROM computes", text: `ARG A=abc\nFROM \${A#a}`, says: "FROM" },
  { when: "it is for another platform", text: "FROM --platform=linux/s390x a", says: "linux/amd64" },
  { when: "a here-document has an odd name", text: 'FROM a\nRUN <<"A B"\nx\nA B', says: "here-document" },
  { when: "a here-document never ends", text: "FROM a\nRUN <<EOF\nx", says: "never ends" },
  {
    when: "a line ends in a way that is read differently",
    text: "FROM a\nRUN x \\\\\nADD http://x.test/ /",
    says: "differently",
  },
  {
    when: "odd white space hides an option",
    text: "FROM a\nRUN \u0085--mount=type=cache,target=/c x",
    says: "white space",
  },
  { when: "it has no stage", text: "# nothing\n", says: "no FROM" },
])("when $when it is refused", ({ text, says }) => {
  expect(rewrite(text)).toMatch(/^refused: /);
  expect(rewrite(text)).toContain(says);
});

test.each([
  ...["registry.svc.test:5000", "Registry.SVC.test:5000", "registry.svc.test:05000", "registry.svc.test.:5000"].map(
    (named) => ({ own: "registry.svc.test:5000", named }),
  ),
  { own: "registry.svc.test", named: "registry.svc.test:443" },
  { own: "registry.svc.test:443", named: "registry.svc.test" },
  { own: "registry.svc.test", named: "REGISTRY.svc.test:0443" },
  ...["127.0.0.1:4500", "localhost:4500", "LOCALHOST:4500", "127.1:4500", "0x7f.1:4500", "0x7f000001:4500"].map(
    (named) => ({ own: "127.0.0.1:4500", named }),
  ),
  ...["2130706433:4500", "[::1]:4500", "0:4500", "x.localhost:4500", "REGISTRY", "a.0x1:4500"].map((named) => ({
    own: "127.0.0.1:4500",
    named,
  })),
])("nothing comes from $named past control, where the platform's registry is $own", ({ named }) => {
  for (const text of [
    `FROM ${named}/svc/p2/app:1`,
    `ARG R=${named}\nFROM \${R}/svc/p2/app@sha256:${"a".repeat(64)}`,
    `FROM a\nCOPY --from=${named}/svc/p2/app:1 / /`,
    `FROM a\nRUN --mount=from=${named}/svc/p2/app:1,target=/x y`,
  ]) {
    const result = rewriteDockerfile(text, options);
    // Control is asked for it, and knows all names of the registry; the engine would read some of them differently.
    if ("refuse" in result) expect(result.refuse).toMatch(/not the name of an|unusual from/);
    else expect(result.baseImages).toContainEqual(expect.stringMatching(/^(?!docker\.io\/).+\/svc\/p2\/app[:@]/));
  }
});

test.each([
  "node:24",
  "library/node",
  "docker.io/library/node",
  "ghcr.io/a/b:1",
  "registry.gitlab.com:443/a/b",
  "a.b/c",
])("an image of a public registry may be named: %s", (image) => expect(rewrite(`FROM ${image}`)).toBe(`FROM ${image}`));

test("an engine without here-documents is not sent any", () => {
  expect(rewrite("FROM a\nRUN <<RUN\nADD http://x.test/ /\nRUN", { hasDocuments: false })).toContain("here-documents");
});

test("every step sees the CA bundle, and no variable of it is in the image", () => {
  const lines = rewrite("FROM a\nRUN x\nFROM b\nRUN --mount=type=tmpfs,target=/t y", { hasCaBundle: true }).split("\n");
  const mount = "--mount=type=secret,id=svc-ca,target=/run/svc-build/ca.pem,mode=0444";
  expect(lines.filter((line) => line.startsWith("RUN"))).toEqual([
    `RUN ${mount} x`,
    `RUN ${mount} --mount=type=tmpfs,target=/t y`,
  ]);
  expect(lines.filter((line) => line === "ARG SSL_CERT_FILE=/run/svc-build/ca.pem")).toHaveLength(2);
  expect(lines.some((line) => line.startsWith("ENV"))).toBe(false);
});

test("lines and base images are known", () => {
  const result = rewriteDockerfile(
    "# escape=`\n\nFROM node:1 AS a\nRUN x `\n y\nFROM scratch\nCOPY --from=a / /\nCOPY --from=uv:1 / /\nFROM A\n",
    options,
  );
  expect(result).toMatchObject({
    baseImages: ["docker.io/library/node:1", "docker.io/library/uv:1"],
    lines: [1, 1, 3, 4, 6, 7, 8, 9],
  });
});

test("base images have the names that the engine knows, wherever they are written", () => {
  const text = [
    "FROM node:24-slim AS node",
    "FROM node",
    "COPY --from=node:24-slim --chown=1:1 / /a",
    "COPY --from=0 / /b",
    "RUN --mount=type=bind,from=docker.io/node:24-slim,target=/t x",
    "RUN --mount=type=bind,from=index.docker.io/library/node:24-slim,source=/s,target=/t x",
  ].join("\n");
  const name = "registry.svc.test:5000/bases/node@sha256:1";
  expect(rewrite(text).split("\n")).toEqual([
    `FROM ${name} AS node`,
    "FROM node",
    `COPY --from=${name} --chown=1:1 / /a`,
    "COPY --from=0 / /b",
    `RUN --mount=type=bind,from=${name},target=/t x`,
    `RUN --mount=type=bind,from=${name},source=/s,target=/t x`,
  ]);
});

test.each([
  { text: "FROM node", images: ["docker.io/library/node:latest"] },
  { text: `FROM node:24@sha256:${"a".repeat(64)}`, images: [`docker.io/library/node@sha256:${"a".repeat(64)}`] },
  { text: "FROM 0x7f.1:4500/x", images: ["0x7f.1:4500/x:latest"] },
  { text: "FROM scratch\nCOPY --from=scratch / /", images: [] },
  { text: "FROM a\nCOPY --from=b / /", images: ["docker.io/library/a:latest", "docker.io/library/b:latest"] },
  // Only COPY knows stages by their numbers.
  {
    text: "FROM a\nRUN --mount=from=0,target=/t x",
    images: ["docker.io/library/a:latest", "docker.io/library/0:latest"],
  },
])("all images of $text are known", ({ text, images }) => {
  expect(rewriteDockerfile(text, options)).toMatchObject({ baseImages: images });
});

test("no directive of the file is left, however it is written", () => {
  const result = rewriteDockerfile("#check=error=true\n#SYNTAX = docker/dockerfile:1\n# escape=`\nFROM a", options);
  expect(result).toMatchObject({ text: "# escape=`\n\nFROM a\n" });
});

const own = "COPY --from=svc-stubs /etc/hosts /etc/resolv.conf /etc/";
const stage = "FROM svc-stubs:1 AS svc-stubs";

test.each([
  { when: "nothing is mounted", text: "ARG A=a\nFROM $A\nRUN x", becomes: `ARG A=a\n${stage}\nFROM a\n${own}\nRUN x` },
  {
    when: "directories are mounted",
    text: "FROM a\nRUN --mount=type=cache,target=.npm,uid=7 --mount=type=tmpfs,target=/x/y/ --mount=target=/w x",
    becomes: [
      stage,
      "FROM a",
      own,
      "COPY --from=svc-stubs --chown=7:0 /directory/ .npm/",
      "COPY --from=svc-stubs /directory/ /x/y/",
      "COPY --from=svc-stubs /directory/ /w/",
      "RUN --mount=type=cache,id=p1-.npm,target=.npm,uid=7 --mount=type=tmpfs,target=/x/y/ --mount=type=bind,target=/w x",
    ].join("\n"),
  },
  {
    when: "files are mounted",
    text: "FROM a\nRUN --mount=type=secret,id=TOKEN --mount=source=./web//package.json,target=package.json x",
    becomes: [
      stage,
      "FROM a",
      own,
      "COPY --from=svc-stubs /etc/hosts /run/secrets/TOKEN",
      "COPY /web/package.json package.json",
      "RUN --mount=type=secret,id=TOKEN-h1,target=/run/secrets/TOKEN --mount=type=bind,source=./web//package.json,target=package.json x",
    ].join("\n"),
  },
  {
    when: "stages are told by number",
    text: "FROM a\nFROM b\nCOPY --from=0 /x /y",
    becomes: `${stage}\nFROM a\nFROM b\nCOPY --from=1 /x /y`,
  },
])("an engine that removes targets of mounts finds each of them in the image when $when", ({ text, becomes }) => {
  expect(rewrite(text, { leavesStubs: true })).toBe(becomes);
});

test.each([
  {
    when: "a secret has a place of its own",
    text: "FROM a\nRUN --mount=type=secret,id=TOKEN,target=/root/.npmrc x",
    says: "leave the target out",
  },
  {
    when: "files of a stage are mounted",
    text: "FROM a AS b\nRUN --mount=from=b,target=/x x",
    says: "use COPY --from=b",
  },
  { when: "a file is not there", text: "FROM a\nRUN --mount=source=no,target=/x x", says: "names no," },
])("where targets cannot be made without harm the step is refused: $when", ({ text, says }) => {
  expect(rewrite(text)).not.toContain("refused");
  expect(rewrite(text, { leavesStubs: true })).toContain(says);
});

test("the CA bundle is mounted upon a file of the image, too", () => {
  const text = rewrite("FROM a\nRUN x", { leavesStubs: true, hasCaBundle: true });
  expect(text).toMatch(
    /\nCOPY --from=svc-stubs \/etc\/hosts \/run\/svc-build\/ca\.pem\nRUN --mount=type=secret,id=svc-ca,/,
  );
});

test("whatever is written as the options of a mount, the engine is told none but known ones", () => {
  const words = [
    "type",
    "cache",
    "bind",
    "target",
    "source",
    "SRC",
    "from",
    "/a",
    "$X",
    "=",
    ",",
    ",",
    "=",
    '"',
    "id",
    "\\",
    "uid",
    "1",
    "ro",
    "..",
  ];
  let seed = 1;
  const next = (below: number): number => {
    seed = (seed * 48271) % 2147483647;
    return seed % below;
  };
  const plain =
    /^RUN --mount=type=(?:cache,id=p1-[^,$"\s]+,|bind,(?:from=[^,$"\s]+,)?(?:source=[^,$"\s]+,)?|tmpfs,|secret,id=[^,$"\s]+,)target=[^,$"\s]+(?:,(?:readonly|readwrite)=true|,(?:uid|size)=1)* x$/;
  let taken = 0;
  for (let round = 0; round < 20_000; round += 1) {
    const value = Array.from({ length: 1 + next(14) }, () => words[next(words.length)]).join("");
    const text = rewrite(`FROM a\nRUN --mount=${round % 2 === 0 ? "type=cache,target=/c," : "target=/d,"}${value} x`);
    if (text.startsWith("refused: ")) continue;
    taken += 1;
    expect(text.split("\n")[1]).toMatch(plain);
  }
  expect(taken).toBeGreaterThan(100);
});

test.each([
  { what: "blanks in a line", text: `FROM a\nRUN ${" ".repeat(500_000)}x` },
  { what: "blanks in a directive", text: `# a=b${" ".repeat(500_000)}x\nFROM a` },
  { what: "marks in a source", text: `FROM a\nADD ${"a@".repeat(250_000)} /x` },
])("many $what stop nobody for long", ({ text }) => {
  const before = process.cpuUsage();
  rewrite(text);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(5_000);
});
