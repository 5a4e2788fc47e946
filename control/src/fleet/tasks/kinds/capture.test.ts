import { limits } from "@svc/proto";
import { expect, test } from "vitest";
import { capture, captureTask } from "./capture.ts";

const of = {
  ...{ image: "svc-capture:1", url: "https://shop.svc.test/", edge: "192.0.2.1:443" },
  targetRepository: "svc/p/screenshot",
};
const installation = {
  ...{ registryHost: "registry.test", baseImage: "", builderImage: "", buildCaBundle: "" },
  gatePass: () => "opens it",
};
const gate = { projectId: "p", passwordHash: "h", channel: "production" };

test.each([
  { image: "svc-capture:1", pull: ["svc/p/screenshot"] },
  { image: `registry.test/platform/capture@sha256:${"a".repeat(64)}`, pull: ["svc/p/screenshot", "platform/capture"] },
])("a capture in $image reads $pull and writes to one repository", ({ image, pull }) => {
  const { spec } = captureTask({ ...of, image });
  expect(capture.needs(spec)).toEqual({
    pull,
    push: { repository: "svc/p/screenshot", kind: "screenshot" },
    baseImages: false,
  });
});

test.each([
  { when: "open", owner: { gate: null }, pass: "" },
  { when: "gated", owner: { gate }, pass: "opens it" },
])("the node of a site that is $when is told what opens it, which is stored with no task", ({ owner, pass }) => {
  const { spec } = captureTask(of);
  expect(capture.spec.parse(JSON.parse(JSON.stringify(spec)))).toEqual(spec);
  expect(capture.forNode(spec, { ...installation, owner })).toMatchObject({
    case: "capture",
    value: {
      ...{ url: of.url, edge: of.edge, targetRepository: of.targetRepository, image: { reference: of.image }, pass },
      ...{ timeoutSeconds: 20, width: 1280, height: 800, maxBytes: BigInt(limits.screenshotBytesMax) },
    },
  });
  expect(JSON.stringify(spec)).not.toContain("opens it");
});
