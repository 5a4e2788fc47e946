import fc from "fast-check";
import { expect, test } from "vitest";
import { stepOutputs, stepSummary } from "./step-output.ts";

const facts = {
  deployment_id: "d1",
  channel: "production",
  status: "running",
  release_status: "succeeded",
  dashboard_url: "https://svc.example.test/projects/p1/deployments/d1",
  url: "https://shop.example.test",
};

/** Reads step outputs as the runner does: `name<<delimiter`, lines, `delimiter`. */
function readOutputs(text: string): Record<string, string> {
  const lines = text.split("\n");
  const outputs: Record<string, string> = {};
  for (let at = 0; at < lines.length - 1; ) {
    const [name = "", delimiter = ""] = (lines[at] ?? "").split("<<");
    const end = lines.indexOf(delimiter, at + 1);
    outputs[name] = lines.slice(at + 1, end).join("\n");
    at = end + 1;
  }
  return outputs;
}

test("every fact is an output of the step", () => {
  let count = 0;
  expect(readOutputs(stepOutputs(facts, () => `d${count++}`))).toEqual(facts);
});

test("what went wrong is for people: it is in the summary, and no output", () => {
  const failed = { ...facts, status: "failed", error: "The build failed" };
  expect(readOutputs(stepOutputs(failed, () => "d"))).not.toHaveProperty("error");
  expect(stepSummary(failed)).toContain("| error | `The build failed` |");
});

test("no value can set another output, whatever it holds", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (hostile) => {
      const read = readOutputs(
        stepOutputs({ ...facts, url: `x\nadmin=true\nDELIMITER\nevil<<E\n1\nE${hostile}` }, () => "DELIMITER"),
      );
      expect(Object.keys(read)).toEqual(Object.keys(facts));
    }),
  );
});

test("the summary shows the facts as text, never as markup", () => {
  const summary = stepSummary({ ...facts, url: "https://x.test/`<img src=x>`|a\n# big" });
  expect(summary).toContain("| status | `running` |");
  expect(summary).toContain("| url | `https://x.test/'<img src=x>'\\|a # big` |");
});
