/* A request, two predictions of it, a sweep: what a program with libstepcast looks like. */
#include <stdio.h>
#include <stepcast.h>

static int print_row(void *ctx, size_t index, stepcast_result *row)
{
	double tp, ms;

	(void)ctx, (void)index;
	if (stepcast_result_number(row, "parallel.tp", &tp) == 0 &&
	    stepcast_result_number(row, "iteration_ms", &ms) == 0)
		printf("tp %.0f: %.2f ms\n", tp, ms);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const grid[] = {"--grid", "parallel.tp=2,4,8"};
	stepcast_request *request = argc > 1 ? stepcast_request_file(argv[1]) : NULL;
	stepcast_result *result = request ? stepcast_predict(request, NULL, 0) : NULL;

	if (!result || stepcast_sweep(request, grid, 2, print_row, NULL) != 0) {
		fprintf(stderr, "%s\n", stepcast_error());
		return 1;
	}
	printf("%s", stepcast_result_json(result));
	stepcast_result_free(result);
	stepcast_request_free(request);
	return 0;
}
