import { ociManifestSchema, sourceManifestSchema } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { addressOf, attributionOf, manifestFor, type RedeploySource, sourceRefusal } from "./redeploy.ts";

const superseded: RedeploySource = {
  type: "ssr",
  channel: "production",
  status: "superseded",
  removing: false,
  artifact: "there",
};
const running: RedeploySource = { ...superseded, channel: "preview", status: "running" };

describe("a rollback", () => {
  test.each([
    { to: "a superseded production deployment", source: {}, is: null },
    { to: "a superseded dev deployment", source: { channel: "dev" }, is: null },
    { to: "a superseded production image", source: { type: "ociimage" }, is: null },
    { to: "a superseded site", source: { type: "static" }, is: null },
    { to: "a superseded preview", source: { channel: "preview" }, is: [400, "ROLLBACK_UNAVAILABLE"] },
    { to: "a running preview", source: { channel: "preview", status: "running" }, is: [400, "ROLLBACK_UNAVAILABLE"] },
    {
      to: "an image's dev deployment",
      source: { type: "ociimage", channel: "dev" },
      is: [400, "ROLLBACK_UNAVAILABLE"],
    },
    { to: "what runs", source: { status: "running" }, is: [409, "ROLLBACK_UNAVAILABLE"] },
    { to: "what is stopped", source: { status: "stopped" }, is: [409, "ROLLBACK_UNAVAILABLE"] },
    { to: "what is queued", source: { status: "queued" }, is: [409, "ROLLBACK_UNAVAILABLE"] },
    { to: "what is being built", source: { status: "building" }, is: [409, "ROLLBACK_UNAVAILABLE"] },
    { to: "what is on its way", source: { status: "deploying" }, is: [409, "ROLLBACK_UNAVAILABLE"] },
    { to: "what failed", source: { status: "failed" }, is: [409, "ROLLBACK_UNAVAILABLE"] },
    { to: "what was canceled", source: { status: "canceled" }, is: [409, "ROLLBACK_UNAVAILABLE"] },
    { to: "what is being removed", source: { removing: true }, is: [409, "ROLLBACK_UNAVAILABLE"] },
    { to: "what has no artifact left", source: { artifact: "gone" }, is: [409, "ROLLBACK_UNAVAILABLE"] },
    { to: "what nobody can tell of", source: { artifact: "unknown" }, is: [undefined, "UNAVAILABLE"] },
  ] as const)("to $to: $is", ({ source, is }) => {
    const refusal = sourceRefusal("rollback", { ...superseded, ...source });
    expect(refusal && [refusal.status, refusal.code]).toEqual(is);
  });

  test("stays where it was, with the manifest that it had", () => {
    expect(addressOf("rollback", { channel: "dev", prNumber: null })).toEqual({ channel: "dev", prNumber: null });
    const manifest = sourceManifestSchema.parse({ version: 2, channel: "dev", app: { name: "Shop", type: "ssr" } });
    expect(manifestFor("rollback", manifest)).toEqual(manifest);
  });
});

describe("a promotion", () => {
  test.each([
    { of: "a running preview", source: {}, is: null },
    { of: "a running preview of an image", source: { type: "ociimage" }, is: null },
    { of: "a dev deployment", source: { channel: "dev" }, is: [400, "ROLLBACK_UNAVAILABLE"] },
    { of: "a production deployment", source: { channel: "production" }, is: [400, "ROLLBACK_UNAVAILABLE"] },
    { of: "a superseded preview", source: { status: "superseded" }, is: [409, "PROMOTE_UNAVAILABLE"] },
    { of: "a preview on its way", source: { status: "deploying" }, is: [409, "PROMOTE_UNAVAILABLE"] },
    { of: "a preview that failed", source: { status: "failed" }, is: [409, "PROMOTE_UNAVAILABLE"] },
    { of: "a preview that is being removed", source: { removing: true }, is: [409, "PROMOTE_UNAVAILABLE"] },
    { of: "a preview without its artifact", source: { artifact: "gone" }, is: [409, "PROMOTE_UNAVAILABLE"] },
    { of: "a preview that nobody can tell of", source: { artifact: "unknown" }, is: [undefined, "UNAVAILABLE"] },
  ] as const)("of $of: $is", ({ source, is }) => {
    const refusal = sourceRefusal("promote", { ...running, ...source });
    expect(refusal && [refusal.status, refusal.code]).toEqual(is);
  });

  test("goes to production, whatever pull request it was of", () => {
    expect(addressOf("promote", { channel: "preview", prNumber: 7 })).toEqual({
      channel: "production",
      prNumber: null,
    });
  });

  const app = { name: "Shop", type: "ssr" };
  const image = { version: 2, name: "Shop", type: "ociimage", port: 80, image: { reference: "a.test/b:1" } };
  test.each([
    {
      when: "one is forced",
      manifest: sourceManifestSchema.parse({ version: 2, channel: "preview", app }),
      is: "production",
    },
    { when: "none is forced", manifest: sourceManifestSchema.parse({ version: 2, app }), is: undefined },
    {
      when: "an image forces one",
      manifest: ociManifestSchema.parse({ ...image, channel: "preview" }),
      is: "production",
    },
  ])("has a manifest that agrees on the channel when $when", ({ manifest, is }) => {
    expect(manifestFor("promote", manifest)).toEqual({ ...manifest, ...(is !== undefined && { channel: is }) });
  });
});

test("the new deployment says what it is made of, and by what", () => {
  const facts = { git_sha: "0123abc", git_ref: "main", git_repository: "ada/shop", git_pr_number: 7 };
  expect(attributionOf("promote", facts)).toEqual({
    trigger: "promote",
    gitSha: "0123abc",
    gitRef: "main",
    gitRepository: "ada/shop",
    gitPrNumber: 7,
  });
});
