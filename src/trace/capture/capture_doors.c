/* The doors by which the tracer comes into a process. Whichever opens first starts it; CUPTI is
 * asked only when CUDA is up, or by the program itself. */
#include "trace/capture/capture_doors.h"

#include "trace/capture/tracer.h"

static _Atomic int cupti_tried;
static _Atomic int nvtx_attached;

/* A process in which nothing can be recorded leaves its reason alone. */
int sc_capture_start(void)
{
	int rc = sc_tracer_start();

	if (rc == 0 && !atomic_exchange(&cupti_tried, 1) && !sc_cupti_session_start()) {
		rc = -1;
		if (!atomic_load(&nvtx_attached) && !atomic_load(&sc_tracer.plugin_on))
			sc_tracer_stop();
	}
	return rc;
}

int InitializeInjection(void)
{
	sc_capture_start();
	return 1;
}

int InitializeInjectionNvtx2(sc_nvtx_get_table get_table)
{
	if (!get_table || sc_tracer_start() || !sc_nvtx_attach(get_table))
		return 0;
	atomic_store(&nvtx_attached, 1);
	return 1;
}

void sc_capture_stop(void)
{
	sc_tracer_stop();
}
