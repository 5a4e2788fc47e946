import { expect, test } from "vitest";
import {
  addressedOn,
  furtherBack,
  latestSuperseded,
  liveOn,
  openDeployment,
  previewOf,
  runningPreview,
} from "./choose.ts";

/** `id channel status [pull request]`, one per line, newest first. */
const deployments = (text: string) =>
  text.split("\n").map((line) => {
    const [id = "", channel, status, number] = line.trim().split(" ");
    const gitPrNumber = number === undefined ? null : Number(number);
    return { id, channel, status, gitPrNumber } as Parameters<typeof openDeployment>[0][number];
  });

test("a rollback goes to the last production deployment that was replaced", () => {
  const list = deployments(`a production failed
    b production running
    c dev superseded
    d production superseded
    e production superseded`);
  expect(latestSuperseded(list)?.id).toBe("d");
  expect(latestSuperseded(list.slice(0, 3))).toBeNull();
});

/** `id status trigger artifact` on production, one per line, newest first. */
const history = (text: string) =>
  text.split("\n").map((line) => {
    const [id = "", status, trigger = "", imageRef = ""] = line.trim().split(" ");
    return { id, channel: "production", status, trigger, imageRef, staticPath: null, gitPrNumber: null } as Parameters<
      typeof furtherBack
    >[1];
  });

test.each([
  [
    "what was before the one gone back to",
    "d running rollback 2\nc superseded cli 3\nb superseded cli 2\na superseded cli 1",
    "a",
  ],
  [
    "not what was just left",
    "e running rollback 2\nd superseded rollback 3\nc superseded rollback 2\nb superseded cli 3\na superseded cli 1",
    "a",
  ],
  ["nothing where there is nothing", "c running rollback 1\nb superseded cli 2\na superseded cli 1", null],
  ["nothing where its source is not shown", "c running rollback 1\nb superseded cli 2", null],
])("further back is %s", (_, text, id) => {
  const list = history(text);
  const live = liveOn(list, "production");
  const left = latestSuperseded(list);
  if (live === null || left === null) throw new Error("no history");
  expect(furtherBack(list, live, left)?.id ?? null).toBe(id);
});

test("the address of a channel is that of the stable preview, or of the only one", () => {
  const at = (text: string) => deployments(text).map((each) => ({ ...each, url: `http://${each.id}.test` }));
  expect(addressedOn(at("a preview running 7\nb preview running"), "preview").id).toBe("b");
  expect(addressedOn(at("a preview running 7\nb preview failed"), "preview").id).toBe("a");
  expect(addressedOn(at("a dev running 7"), "dev").id).toBe("a");
  expect(() => addressedOn(at("a preview running 7\nb preview running 8"), "preview")).toThrow(
    /#8 {2}http:\/\/b\.test/,
  );
  expect(() => addressedOn(at("a preview failed 7"), "preview")).toThrow("Nothing runs on preview");
});

test("a promotion takes the stable preview, or the only one", () => {
  const both = deployments("a preview running 7\nb preview running\nc preview superseded");
  expect(runningPreview(both).id).toBe("b");
  expect(runningPreview(deployments("a preview failed\nb preview running 7")).id).toBe("b");
});

test("a promotion of which several could be meant names them", () => {
  expect(() => runningPreview(deployments("a preview running 7\nb preview running 8"))).toThrow(
    /2 previews run; say which\n {2}a {2}preview #7, running\n {2}b {2}preview #8, running/,
  );
  expect(() => runningPreview(deployments("a preview failed 7\nb production running"))).toThrow("PROMOTE_UNAVAILABLE");
});

test("a cancellation takes the only one that is on its way", () => {
  expect(openDeployment(deployments("a preview running\nb production building")).id).toBe("b");
  expect(() => openDeployment(deployments("a preview queued 3\nb production building"))).toThrow(
    /2 deployments are on their way; say which\n {2}a {2}preview #3, queued\n {2}b {2}production, building/,
  );
  expect(() => openDeployment(deployments("a production running"))).toThrow("CANCEL_UNAVAILABLE");
});

test.each([
  ["a preview building 7\nb preview running 7\nc preview running 8", "b"],
  ["a preview failed 7\nb preview building 7", "b"],
  ["a preview failed 7\nb preview superseded 7", "a"],
  ["a preview running 8\nb production running 7", null],
])("the preview of a pull request among %j is %s", (list, id) => {
  expect(previewOf(deployments(list), 7)?.id ?? null).toBe(id);
});
