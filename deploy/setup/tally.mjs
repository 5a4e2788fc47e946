/**
 * Counts of a vitest JSON report. A file that failed without a failed test of its own (it did not load,
 * or a hook broke) counts as one failure, and so does an unclean exit that no test explains.
 */
export function tally(report, exitCode) {
  const files = report?.testResults ?? [];
  const broken = files.filter(
    (file) => file.status === "failed" && !file.assertionResults.some((one) => one.status === "failed"),
  );
  const failed = (report?.numFailedTests ?? 0) + broken.length;
  return { passed: report?.numPassedTests ?? 0, failed: failed === 0 && exitCode !== 0 ? 1 : failed };
}
