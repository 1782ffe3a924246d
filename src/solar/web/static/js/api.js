// Talking with the server: JSON in, JSON out, failures as one sentence.

import { askForToken } from "./token.js";
import { notify } from "./notice.js";

const BASE = "api/v1"; // relative: the page may lie below a path of a larger site
const LONGEST_WAIT = 30;
const FOLLOWED = 300; // between two questions how far a job is, in milliseconds
const SILENT = "The server does not answer: is it still running?";
const OFFLINE = "You are offline: try again once you are back online.";

/** A failure with a sentence for the visitor. */
class ApiError extends Error {
  constructor(sentence, status = 0) {
    super(sentence);
    this.status = status;
  }
}

export const get = (path, options) => json(path, options);

/** An answer that is no JSON, as text. */
export const text = async (path, options) => (await ask(path, options)).text();

export const post = (path, body, options) => json(path, { ...options, body });

/** Follows a job until it is done or nobody wants it; `told(now)` is called with each of its states. */
export async function follow(job, told, wanted) {
  for (;;) {
    const now = await get(`/jobs/${encodeURIComponent(job)}`);
    await told(now);
    if (now.state === "done" || !wanted()) return now;
    await new Promise((resolve) => setTimeout(resolve, FOLLOWED));
  }
}

/** Calls `line(object)` for each line of an NDJSON answer as it arrives. */
export async function stream(path, body, line, options = {}) {
  const response = await ask(path, { ...options, body, accept: "application/x-ndjson" });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      const lines = (rest + (value ?? "")).split("\n");
      rest = done ? "" : lines.pop();
      for (const text of lines.filter(Boolean)) take(text, line);
      if (done) return;
    }
  } catch (error) {
    throw error instanceof TypeError ? new ApiError(SILENT) : error;
  }
}

function take(text, line) {
  const said = JSON.parse(text);
  if (said.error) throw new ApiError(said.error);
  line(said);
}

async function json(path, options) {
  const response = await ask(path, options);
  const answer = await response.json();
  return response.status === 202 ? { ...answer, unfinished: true } : answer;
}

/**
 * Sends a form as `post` does; `sent(share)` is called as it goes out, which `fetch` cannot tell.
 */
export async function sendForm(path, form, { sent, signal } = {}) {
  for (;;) {
    const request = await transfer(path, form, sent, signal);
    if (request.status >= 200 && request.status < 300) return JSON.parse(request.responseText);
    const response = new Response(request.responseText, { status: request.status });
    if (request.status !== 401) throw await failure(response);
    await askForToken(true);
  }
}

function transfer(path, form, sent, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const stop = () => request.abort();
    request.open("POST", BASE + path);
    const token = authorization();
    if (token) request.setRequestHeader("Authorization", token);
    request.upload.onprogress = ({ loaded, total }) => sent?.(total ? loaded / total : 0);
    request.onload = () => resolve(request);
    request.onerror = () => reject(new ApiError(navigator.onLine ? SILENT : OFFLINE));
    request.onabort = () => reject(new DOMException("Cancelled.", "AbortError"));
    request.onloadend = () => signal?.removeEventListener("abort", stop);
    signal?.addEventListener("abort", stop);
    request.send(form);
  });
}

/** One request; asks for the token where one is wanted, and once more where the server is busy. */
async function ask(path, options = {}) {
  for (let attempt = 0; ; attempt++) {
    const response = await send(path, options);
    if (response.ok) return response;
    if (response.status === 401) {
      await response.body?.cancel();
      await askForToken(attempt > 0);
      continue;
    }
    const wait = Number(response.headers.get("Retry-After"));
    const busy = response.status === 503 || response.status === 429;
    if (!busy || attempt > 0 || wait > LONGEST_WAIT) throw await failure(response);
    await response.body?.cancel();
    await patience(wait || 1, options.signal);
  }
}

async function send(path, { body, accept = "application/json", signal }) {
  const headers = { Accept: accept };
  const token = authorization();
  if (token) headers.Authorization = token;
  if (body) headers["Content-Type"] = "application/json";
  try {
    return await fetch(BASE + path, {
      method: body ? "POST" : "GET",
      headers,
      body: body && JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(navigator.onLine ? SILENT : OFFLINE);
  }
}

function authorization() {
  const token = sessionStorage.getItem("solar-token");
  // A header holds bytes; a token may hold any letters.
  return token && `Bearer ${String.fromCharCode(...new TextEncoder().encode(token))}`;
}

async function failure(response) {
  const said = await response.json().catch(() => ({}));
  return new ApiError(
    said.error ?? `The server answered with ${response.status}.`,
    response.status,
  );
}

function patience(seconds, signal) {
  notify(`The server is busy; trying again in ${seconds} s.`);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("No longer wanted.", "AbortError"));
    });
  });
}

/** Whether an error only says that the visitor went on to something else. */
export const isAbort = (error) => error?.name === "AbortError";
