// @pure
import { type CaptureSpec, Desired } from "@svc/proto/node";
import type { PlacementKind } from "./kind.ts";

/** The capture of a site, which ends by itself. Its browser is done with when the agent is. */
export const capture: PlacementKind<CaptureSpec> = {
  container: null,
  isVisited: false,
  rebootsWith: "journal",
  next({ desired, imageReady }) {
    if (desired !== Desired.RUNNING) return { do: "rest" };
    return { do: imageReady ? "capture" : "pull-browser" };
  },
  healthTimeoutMs: () => 0,
  images: ({ image }) => (image === undefined ? [] : [image.reference]),
  redact: ({ pass }) => (pass === "" ? [] : [pass]),
};
