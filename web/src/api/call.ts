// One request to the server. Every failure becomes one line for the user: what, and what the server said.

/** An answer that was not 2xx. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/**
 * Where the server keeps this page: `/` in `transect view`, `/view/ID/` in `transect serve`. Scripts, the worker's
 * too, lie in `assets/` below it.
 */
export const ROOT = new URL("../", import.meta.url);

/** Waits before a question is repeated that the server refused for now: too many of all clients (503) or of this one (429). */
const AGAIN = [80, 200, 500, 1200];

/** Sends a request; throws `ApiError` with the server's own line. */
export async function call(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  for (const wait_ms of AGAIN) {
    try {
      return await once(path, body, signal);
    } catch (error) {
      if (!(error instanceof ApiError) || ![429, 503].includes(error.status)) throw error;
    }
    await new Promise((done) => setTimeout(done, wait_ms));
    if (signal?.aborted) throw new DOMException("request cancelled", "AbortError");
  }
  return once(path, body, signal);
}

async function once(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { credentials: "same-origin" };
  if (body !== undefined) {
    init.method = "POST";
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  if (signal) init.signal = signal;
  const answer = await fetch(new URL(path, ROOT), init).catch((cause: unknown) => {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ApiError(0, "no response from the server: check that transect is still running");
  });
  if (!answer.ok) throw new ApiError(answer.status, await errorLine(answer));
  return answer;
}

async function errorLine(answer: Response): Promise<string> {
  const text = await answer.text().catch(() => "");
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null && "error" in parsed) return String(parsed.error);
  } catch {
    // Not JSON: the text itself, cut, is the best there is.
  }
  return text.slice(0, 300) || `the server returned HTTP status ${answer.status}`;
}
