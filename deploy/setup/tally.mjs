/**
 * Counts of a vitest JSON report. A file that failed without a failed test of its own (it did not load,
 * or a hook broke) counts as one failure, and so does an unclean exit that no test explains.
 */
export function tally(report, exitCode) {
  const files = report?.testResults ?? [];
  const tests = files.flatMap(({ assertionResults }) => assertionResults);
  const broken = files.filter((file) => file.status === "failed" && failedTests(file).length === 0);
  const failed = tests.filter(({ status }) => status === "failed").length + broken.length;
  return {
    passed: tests.filter(({ status }) => status === "passed").length,
    failed: failed === 0 && exitCode !== 0 ? 1 : failed,
  };
}

/** A whole run's report with what the second runs of some of its files found in place of what the first did. */
export function withSecondRuns(report, seconds) {
  const later = new Map(seconds.flatMap((second) => second?.testResults ?? []).map((file) => [file.name, file]));
  return { ...report, testResults: report.testResults.map((file) => later.get(file.name) ?? file) };
}

/** More than these are no accident. */
const secondRunMax = 3;

/**
 * The files of a whole run that are run once more, alone: those that failed, when they are few and explain its exit.
 * Empty when there is to be no second run.
 */
export function filesToRunAgain(report, exitCode) {
  if (exitCode === 0 || report === null) return [];
  const files = [...new Set(failedFiles(report).map(({ name }) => name))];
  return files.length <= secondRunMax ? files : [];
}

/** What the first run said of the files that passed in the second: each is a fault to mend, of the test or of svc. */
export function flakyLines(report, passed) {
  const flaky = failedFiles(report).filter(({ name }) => passed.includes(name));
  return flaky.flatMap((file) => {
    const said = failedTests(file).flatMap(({ fullName, failureMessages }) => [fullName, ...failureMessages]);
    return [`FLAKY ${file.name}`, ...(said.length > 0 ? said : [file.message]).map(indented)];
  });
}

const failedFiles = (report) => report.testResults.filter(({ status }) => status === "failed");
const failedTests = (file) => file.assertionResults.filter(({ status }) => status === "failed");
const indented = (text) => `  ${text.replaceAll("\n", "\n  ")}`;

/** The longest files of a report, longest first: `123 s control/src/…`. */
export function slowestFiles(report, root) {
  const timed = (report?.testResults ?? []).map(({ name, startTime, endTime }) => ({
    name: name.startsWith(`${root}/`) ? name.slice(root.length + 1) : name,
    seconds: (endTime - startTime) / 1000,
  }));
  const longest = timed.sort((one, other) => other.seconds - one.seconds).slice(0, 10);
  return longest.map(({ name, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${name}`);
}
