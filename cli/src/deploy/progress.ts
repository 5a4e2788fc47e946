import { formatBytes, formatDuration } from "../format.ts";

/** How far an upload is, in one line. */
export function uploadLine(sentBytes: number, totalBytes: number, elapsedMs: number): string {
  const size = formatBytes(totalBytes);
  if (sentBytes >= totalBytes) return `Uploaded ${size}; waiting for the platform to take it in`;
  const percent = Math.floor((sentBytes / totalBytes) * 100);
  const rate = elapsedMs < 500 ? "" : `, ${formatBytes(sentBytes / (elapsedMs / 1000))}/s`;
  return `Uploading ${formatBytes(sentBytes)} of ${size}, ${percent}%${rate}`;
}

/** What is said of an upload once it is over. */
export const uploadedLine = (totalBytes: number, elapsedMs: number): string =>
  `Uploaded ${formatBytes(totalBytes)} in ${formatDuration(elapsedMs)}`;
