import { describe, expect, test } from "vitest";
import { choosePlatform, judgeConfig, partsOf } from "./rules.ts";

const digest = (letter: string) => `sha256:${letter.repeat(64)}`;
const part = (letter: string, size = 100) => ({ mediaType: "application/test", digest: digest(letter), size });
const amd64 = { os: "linux", architecture: "amd64" };
const arm64 = { os: "linux", architecture: "arm64" };

describe("of an index", () => {
  const forAmd = { ...part("a"), platform: amd64 };
  const forArm = { ...part("b"), platform: arm64 };
  const attestation = { ...part("c"), platform: { os: "unknown", architecture: "unknown" } };
  test.each([
    { when: "it has one for the fleet", manifests: [attestation, forArm, forAmd], platforms: [amd64], chosen: forAmd },
    { when: "it has several", manifests: [forAmd, forArm], platforms: [arm64, amd64], chosen: forArm },
    { when: "it has none", manifests: [forArm], platforms: [amd64], chosen: null },
    { when: "it has nothing", manifests: [], platforms: [amd64], chosen: null },
    { when: "its only one does not say", manifests: [part("a")], platforms: [amd64], chosen: part("a") },
    { when: "several do not say", manifests: [part("a"), part("b")], platforms: [amd64], chosen: null },
  ])("the image is chosen when $when", ({ manifests, platforms, chosen }) => {
    expect(choosePlatform(manifests, platforms)).toEqual(chosen);
  });
});

describe("a manifest", () => {
  const found = (manifest: object, contentBytes = 200) => ({ manifest, contentBytes });
  test("of an image says what it consists of", () => {
    const manifest = { config: part("a"), layers: [part("b")] };
    expect(partsOf(found(manifest), 1)).toEqual(manifest);
  });
  test.each([
    { when: "it has no configuration", manifest: { layers: [part("b")] }, code: "OCI_INSPECT_FAILED" },
    { when: "it is an index in an index", manifest: { manifests: [] }, code: "OCI_INSPECT_FAILED" },
    { when: "its configuration is huge", manifest: { config: part("a", 2 ** 30) }, code: "OCI_INSPECT_FAILED" },
    {
      when: "it has too many layers",
      manifest: { config: part("a"), layers: Array.from({ length: 128 }, () => part("b")) },
      code: "OCI_INSPECT_FAILED",
    },
    {
      when: "a layer is to be fetched from elsewhere",
      manifest: { config: part("a"), layers: [{ ...part("b"), urls: ["https://elsewhere.test/layer"] }] },
      code: "OCI_INSPECT_FAILED",
    },
  ])("is refused when $when", ({ manifest, code }) => {
    expect(partsOf(found(manifest), 1)).toMatchObject({ code });
  });
  test("is measured by what it transfers", () => {
    const manifest = { config: part("a"), layers: [part("b")] };
    expect(partsOf(found(manifest, 3 * 1024 * 1024), 3)).toEqual(manifest);
    expect(partsOf(found(manifest, 3 * 1024 * 1024 + 1), 3)).toEqual({
      code: "OCI_IMAGE_TOO_LARGE",
      message: "The image has at least 4 MB; the plan allows 3 MB.",
    });
  });
});

describe("a configuration", () => {
  const text = (run: unknown, facts: object = {}) =>
    JSON.stringify({ ...amd64, config: run, rootfs: { diff_ids: ["x"] }, ...facts });
  const runs = { Cmd: ["/app"] };
  const wanted = { platforms: [amd64], needsCommand: true };
  test.each([
    { when: "it has a command", run: runs },
    { when: "it has an entrypoint", run: { Entrypoint: ["/app"], Cmd: null } },
    { when: "it runs as a number", run: { ...runs, User: "1000:1000" } },
    { when: "it runs as the last number", run: { ...runs, User: "2147483647" } },
    { when: "it runs as a name", run: { ...runs, User: "app" } },
    { when: "it has labels of ours", run: { ...runs, Labels: { "svc.project": "x" } } },
  ])("is taken when $when", ({ run }) => {
    expect(judgeConfig(text(run), 1, wanted)).toEqual(amd64);
  });
  test.each([
    { when: "it is no JSON", config: "<html>", code: "OCI_INSPECT_FAILED" },
    { when: "it says little", config: "{}", code: "OCI_INSPECT_FAILED" },
    { when: "it speaks of other layers", config: text(runs, { rootfs: { diff_ids: [] } }), code: "OCI_INSPECT_FAILED" },
    { when: "the user id overflows", config: text({ ...runs, User: "4294967296" }), code: "OCI_INSPECT_FAILED" },
    { when: "the group id overflows", config: text({ ...runs, User: "1:2147483648" }), code: "OCI_INSPECT_FAILED" },
    { when: "the user id is negative", config: text({ ...runs, User: "-1" }), code: "OCI_INSPECT_FAILED" },
    { when: "it is for Windows", config: text(runs, { os: "windows" }), code: "OCI_PLATFORM_UNSUPPORTED" },
    { when: "no node has its processor", config: text(runs, arm64), code: "OCI_PLATFORM_UNSUPPORTED" },
    { when: "it has no command", config: text({}), code: "OCI_ENTRYPOINT_MISSING" },
    { when: "it has no run configuration", config: text(null), code: "OCI_ENTRYPOINT_MISSING" },
    { when: "its command is empty", config: text({ Entrypoint: [], Cmd: [""] }), code: "OCI_ENTRYPOINT_MISSING" },
  ])("is refused when $when", ({ config, code }) => {
    expect(judgeConfig(config, 1, wanted)).toMatchObject({ code });
  });

  test("of what a build starts from needs no command", () => {
    expect(judgeConfig(text({}), 1, { ...wanted, needsCommand: false })).toEqual(amd64);
  });
});
