// @pure
import type { KeeperSpec } from "@svc/proto/node";
import { nextContainerStep } from "./container.ts";
import { afterRefusal } from "./database.ts";
import type { PlacementKind } from "./kind.ts";

/** Whoever kills it loses nothing: it goes on from what is on the disk. */
const stopGraceSeconds = 5;

/** Keeps a copy of a database. What it keeps stays on the node, whatever becomes of the placement. */
export const keeper: PlacementKind<KeeperSpec> = {
  container: ({ image }) => ({
    ...{ image, mayBeLocal: true, command: [], env: {}, databaseId: "", port: 0, stopGraceSeconds },
  }),
  isVisited: false,
  // It only ever adds to its own volume, which no other node has.
  rebootsWith: "journal",
  next(view) {
    // From its first moment on it has begun: how far the copy is goes another way.
    const step = afterRefusal(view) ?? nextContainerStep(view, () => ({ do: "watch-keeper" }));
    if (step.do === "create") return { do: "create-keeper" };
    return step.do === "start" ? { do: "start-keeper" } : step;
  },
  healthTimeoutMs: () => 0,
  images: ({ image }) => (image === undefined ? [] : [image.reference]),
  redact: ({ password }) => (password === "" ? [] : [password]),
};
